# SPDX-License-Identifier: Apache-2.0
"""test_passes_scale_slow at its full size, a million nodes, and beside onnxruntime. Needs a quiet machine."""
from test_passes_scale_slow import main

if __name__ == "__main__":
    main(True)
