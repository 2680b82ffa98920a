# SPDX-License-Identifier: Apache-2.0
"""The ONNX project's backend interface: prepare, run_model, run_node, supports_device. Needs the package onnx.

    import tenonrt.backend as backend
    outputs = backend.run_model(onnx_model, [x])
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from . import _arrays
from ._options import RunOptions, SessionOptions
from ._session import InferenceSession

# What InferenceSession takes, of the keywords that prepare and run_model may be given.
_SESSION = ("sess_options", "providers", "provider_options", "threads")


class TenonBackendRep(BackendRep):
    """A model ready to run on the backend."""

    def __init__(self, session: InferenceSession):
        self._session = session
        self._inputs = [arg.name for arg in session.get_inputs()]
        self._outputs = [arg.name for arg in session.get_outputs()]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`inputs`: a list in the model's order, a dict by name, or the one input. The result has fields by name too."""
        if isinstance(inputs, dict):
            feed = inputs
        else:
            if not isinstance(inputs, (list, tuple)) or (len(self._inputs) == 1 and len(inputs) != 1):
                inputs = [inputs]
            feed = dict(zip(self._inputs, inputs))
        results = self._session.run(None, feed, kwargs.get("run_options"))
        return namedtupledict("Outputs", self._outputs)(*results)


class TenonBackend(Backend):
    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        try:
            cls.prepare(model, device, **kwargs)
        except Exception:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> TenonBackendRep:
        """`model`: a ModelProto, a file's name, the bytes of one, a tenonrt.Model or an InferenceSession."""
        if not cls.supports_device(device):
            raise RuntimeError(f"there is no device {device!r}")
        if isinstance(model, TenonBackendRep):
            return model
        if not isinstance(model, InferenceSession):
            model = InferenceSession(model, **{key: kwargs[key] for key in _SESSION if key in kwargs})
        return TenonBackendRep(model)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """One NodeProto on these inputs: a list in the order of its inputs, absent ones left out, or a dict by name."""
        super().run_node(node, inputs, device, outputs_info, **{k: v for k, v in kwargs.items() if k == "opset_version"})
        names = [name for name in node.input if name]
        arrays = inputs if isinstance(inputs, dict) else dict(zip(names, inputs))
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        ins = [helper.make_tensor_value_info(name, _onnx_type(array.dtype), array.shape) for name, array in arrays.items()]
        outs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        for value, (dtype, shape) in zip(outs, outputs_info or ()):
            value.CopyFrom(helper.make_tensor_value_info(value.name, _onnx_type(np.dtype(dtype)), shape))
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        opsets = [helper.make_opsetid("", version)]
        if node.domain:
            opsets.append(helper.make_opsetid(node.domain, kwargs.get("domain_version", 1)))
        model = helper.make_model(helper.make_graph([node], "node", ins, outs), opset_imports=opsets)
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


def _onnx_type(dtype: np.dtype) -> int:
    return _arrays.ONNX[_arrays.dtype_name(dtype)]


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run = TenonBackend.run_model
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device

__all__ = [
    "RunOptions", "SessionOptions", "TenonBackend", "TenonBackendRep", "is_compatible", "prepare", "run", "run_model",
    "run_node", "supports_device",
]  # fmt: skip
