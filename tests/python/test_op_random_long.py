# SPDX-License-Identifier: Apache-2.0
"""Many more random instances of the op rows than `make test` has time for."""
from test_op_random import main

if __name__ == "__main__":
    main(times=30, seed=1)
