# SPDX-License-Identifier: Apache-2.0
"""OrtValue and IOBinding: tensors that outlive a run, and runs into memory of the caller's."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _arrays, _tenon
from ._errors import InvalidArgument

if TYPE_CHECKING:
    from ._session import InferenceSession


def _check_device(device_type: str) -> None:
    if str(device_type).lower() not in ("cpu", "cpu:0", "cuda_pinned"):
        raise InvalidArgument("INVALID_ARGUMENT", f"there is no device {device_type!r}: models run on the processor")


class OrtDevice:
    """A place of memory: the processor's."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0):
        _check_device(device_type)
        self._id = device_id

    @staticmethod
    def make(name: str, device_id: int = 0) -> OrtDevice:
        return OrtDevice(name, device_id)

    def device_type(self) -> str:
        return "cpu"

    def device_id(self) -> int:
        return self._id


class OrtValue:
    """A value for or of a run. `numpy()` of a result is an array over its memory; of a value that a script made, which a
    later run may write, it is a copy. `numpy.asarray(value)` and DLPack share the memory of both."""

    def __init__(self, tensor: _tenon.Tensor, shared: bool = False):
        self._tensor = tensor
        self._result = not shared

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Over the array's memory."""
        _check_device(device_type)
        return OrtValue(_arrays.from_array(_arrays.context(), np.asarray(array)), shared=True)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(array: np.ndarray, onnx_element_type: int) -> OrtValue:
        """Over the memory of an array that holds the bits of a type which numpy lacks."""
        name = _name_of(onnx_element_type)
        return OrtValue(_arrays.from_array(_arrays.context(), np.asarray(array), name), shared=True)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        _check_device(device_type)
        name = _name_of(element_type)
        return OrtValue(_tenon.Tensor.create(_arrays.context(), name, tuple(int(n) for n in shape)), shared=True)

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        value = from_dlpack(data)
        if is_bool_tensor and value._tensor.dtype == "u8":
            return OrtValue(_tenon.Tensor.wrap(_arrays.context(), np.asarray(value._tensor).view(np.bool_)), shared=True)
        return value

    def numpy(self) -> Any:
        array = _arrays.to_array(self._tensor)
        return array if self._result or not isinstance(array, np.ndarray) else array.copy()

    def shape(self) -> list[int]:
        return list(self._tensor.shape)

    def data_type(self) -> str:
        if self.is_tensor():
            return f"tensor({_arrays.spelled(self._tensor.dtype)})"
        items = self._tensor.items()
        inner = OrtValue(items[0]).data_type() if items else "tensor(undefined)"
        return f"{'seq' if self.is_tensor_sequence() else self._tensor.kind}({inner})"

    def element_type(self) -> int:
        return _arrays.ONNX.get(self._tensor.dtype, 0)

    def device_name(self) -> str:
        return "cpu"

    def data_ptr(self) -> int:
        return self._tensor.data_ptr or 0

    def has_value(self) -> bool:
        return self._tensor.kind != "optional" or bool(self._tensor.items())

    def is_tensor(self) -> bool:
        return self._tensor.kind == "tensor"

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return self._tensor.kind == "sequence"

    def update_inplace(self, array: np.ndarray) -> None:
        """The array's elements into this value's memory."""
        name = self._tensor.dtype
        if name not in _arrays.PLAIN and name not in _arrays.BITS:
            raise InvalidArgument("INVALID_ARGUMENT", f"a tensor({_arrays.spelled(name)}) cannot be written in place")
        mine, given = _arrays.to_array(self._tensor), np.asarray(array)
        if given.shape != mine.shape or given.dtype != mine.dtype:
            text = f"the value is {mine.dtype}{list(mine.shape)}, the array {given.dtype}{list(given.shape)}"
            raise InvalidArgument("SHAPE", text)
        mine[...] = given

    def to_dlpack(self) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = _arrays.to_array(self._tensor)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"<OrtValue {self.data_type()} {self.shape()}>"


def from_dlpack(value: Any) -> OrtValue:
    """A value over the memory of another library's tensor (torch, jax, numpy, ...), or of a DLPack capsule."""
    owner = _arrays.context()
    if not hasattr(value, "__dlpack__"):
        return OrtValue(_tenon.from_dlpack(owner, value), shared=True)
    try:
        capsule = value.__dlpack__(max_version=(1, 1))
    except TypeError:  # an older protocol
        capsule = value.__dlpack__()
    return OrtValue(_tenon.from_dlpack(owner, capsule), shared=True)


def _name_of(element_type: Any) -> str:
    """Of an onnx.TensorProto number or anything that numpy takes for a type."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        for name, number in _arrays.ONNX.items():
            if number == element_type:
                return name
        raise InvalidArgument("INVALID_ARGUMENT", f"there is no element type {element_type}")
    return _arrays.dtype_name(element_type)


def _at_address(address: int, name: str, shape: Sequence[int]) -> _tenon.Tensor:
    if name not in _arrays.PLAIN and name not in _arrays.BITS:
        raise InvalidArgument("INVALID_ARGUMENT", f"memory of type {name} cannot be bound")
    kind = _arrays.PLAIN[name] if name in _arrays.PLAIN else np.dtype(_arrays.BITS[name][1])
    shape = tuple(int(n) for n in shape)
    n = int(np.prod(shape)) * kind.itemsize
    memory: Any = (ctypes.c_char * n).from_address(address) if n else bytearray()
    return _arrays.from_array(_arrays.context(), np.frombuffer(memory, kind).reshape(shape), name)


class IOBinding:
    """What a session's inputs read and its outputs fill. Made by InferenceSession.io_binding()."""

    def __init__(self, session: InferenceSession):
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, _tenon.Tensor | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        """Read when the session runs, from the array's own memory where it can be."""
        self._inputs[self._session._input_name(name)] = array

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        _check_device(device_type)
        self._inputs[self._session._input_name(name)] = _at_address(buffer_ptr, _name_of(element_type), shape)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[self._session._input_name(name)] = value

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Into this memory; without an address the engine makes it anew on each run."""
        _check_device(device_type)
        tensor = None
        if buffer_ptr is not None and shape is not None:
            tensor = _at_address(buffer_ptr, _name_of(element_type or np.float32), shape)
        self._outputs[self._session._output_name(name)] = tensor

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[self._session._output_name(name)] = value._tensor

    def get_outputs(self) -> list[OrtValue]:
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        arrays = [_arrays.to_array(value._tensor) for value in self._results]
        return [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        pass

    def synchronize_outputs(self) -> None:
        pass
