# SPDX-License-Identifier: Apache-2.0
"""More random changes of models than `make test` has time for."""
from test_hostile import main

if __name__ == "__main__":
    main(runs=100000, n_seeds=8, first_seed=100, backend=True)
