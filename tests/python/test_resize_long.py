# SPDX-License-Identifier: Apache-2.0
"""test_resize_slow on all test models."""
from test_resize_slow import main

if __name__ == "__main__":
    main(True)
