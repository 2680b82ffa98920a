# SPDX-License-Identifier: Apache-2.0
"""Random instances of every op, with answers: generators by subject, oracles, and how they are swept."""
