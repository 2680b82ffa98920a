# SPDX-License-Identifier: Apache-2.0
"""test_isa_slow on all test models."""
from test_isa_slow import main

if __name__ == "__main__":
    main(["--long"])
