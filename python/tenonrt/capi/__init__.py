# SPDX-License-Identifier: Apache-2.0
"""Where onnxruntime has its exceptions: `from tenonrt.capi.onnxruntime_pybind11_state import InvalidArgument`."""
from . import onnxruntime_pybind11_state

_pybind_state = onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
