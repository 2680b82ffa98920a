# SPDX-License-Identifier: Apache-2.0
"""Between numpy's arrays and the engine's tensors: over the same memory wherever numpy has the type.

Types that numpy lacks are ml_dtypes' where that package is installed. Without it they are their bits: bf16 is uint16, the
8-bit floats are uint8, the types below 8 bits one element a byte (int8 and uint8 with the values, f4e2m1 with its bits).
Such arrays of bits are taken as inputs in any case. Strings are object arrays of str.
"""
from __future__ import annotations

import threading
from typing import Any

import numpy as np

from . import _tenon
from ._errors import InvalidArgument

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None  # type: ignore[assignment]

# Name in the engine -> numpy's type.
_NUMPYS: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_, "c64": np.complex64, "c128": np.complex128,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
PLAIN = {name: np.dtype(kind) for name, kind in _NUMPYS.items()}
# -> ml_dtypes' name, the type of the bits.
BITS = {
    "bf16": ("bfloat16", np.uint16), "f8e4m3fn": ("float8_e4m3fn", np.uint8), "f8e4m3fnuz": ("float8_e4m3fnuz", np.uint8),
    "f8e5m2": ("float8_e5m2", np.uint8), "f8e5m2fnuz": ("float8_e5m2fnuz", np.uint8), "f8e8m0": ("float8_e8m0fnu", np.uint8),
}  # fmt: skip
# -> ml_dtypes' name, the type of the values, bits.
PACKED = {
    "i4": ("int4", np.int8, 4), "u4": ("uint4", np.uint8, 4), "f4e2m1": ("float4_e2m1fn", np.uint8, 4),
    "i2": ("int2", np.int8, 2), "u2": ("uint2", np.uint8, 2),
}  # fmt: skip
# -> the name that onnxruntime has in "tensor(float)".
SPELLED = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "bool": "bool", "str": "string",
    "c64": "complex64", "c128": "complex128", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
    "f8e4m3fn": "float8e4m3fn", "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2": "float8e5m2", "f8e5m2fnuz": "float8e5m2fnuz",
    "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1",
}  # fmt: skip
# -> onnx.TensorProto's number.
ONNX = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "str": 8, "bool": 9, "f16": 10, "f64": 11, "u32": 12,
    "u64": 13, "c64": 14, "c128": 15, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21,
    "i4": 22, "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26,
}  # fmt: skip


def _small_type(name: str) -> np.dtype | None:
    row = BITS.get(name) or PACKED.get(name)
    kind = getattr(ml_dtypes, row[0], None) if ml_dtypes and row else None
    return np.dtype(kind) if kind else None


SMALL = {name: kind for name in (*BITS, *PACKED) if (kind := _small_type(name)) is not None}
NAMES = {kind: name for name, kind in (*PLAIN.items(), *SMALL.items())}

_contexts: dict[int, _tenon.Context] = {}
_lock = threading.Lock()


def context(threads: int = 0) -> _tenon.Context:
    """The context with so many threads (0: one for each processor), shared by all that ask for as many."""
    with _lock:
        if threads not in _contexts:
            _contexts[threads] = _tenon.Context(max(threads, 0))
        return _contexts[threads]


def dtype_name(dtype: Any) -> str:
    """The engine's name for a type: "f32" of np.float32, "float32", "f32", "tensor(float)" or "bfloat16"."""
    if isinstance(dtype, str):
        if dtype in ONNX:
            return dtype
        spelled = dtype[len("tensor(") : -1] if dtype.startswith("tensor(") else dtype
        for name, text in SPELLED.items():
            if spelled == text or spelled == (BITS.get(name) or PACKED.get(name) or ("",))[0]:
                return name
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is not None and kind.kind in "USO":
        return "str"
    found = NAMES.get(kind.newbyteorder("=")) if kind is not None else None
    if found is None:
        raise InvalidArgument("INVALID_ARGUMENT", f"there is no element type {dtype}")
    return found


def spelled(name: str | None) -> str:
    return SPELLED.get(name or "", "undefined")


def dense(array: np.ndarray) -> np.ndarray:
    """The array itself where its memory can be shared, else a copy that is dense, aligned and of native byte order."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)


def _pack(array: np.ndarray, bits: int) -> bytes:
    per_byte = 8 // bits
    values = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    rows = np.zeros((-(-values.size // per_byte), per_byte), np.uint8)
    rows.reshape(-1)[: values.size] = values
    packed = np.zeros(len(rows), np.uint8)
    for k in range(per_byte):
        packed |= rows[:, k] << (k * bits)
    return packed.tobytes()


def _unpack(packed: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    _, value_type, bits = PACKED[name]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (packed[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)[: int(np.prod(shape))]
    if value_type is np.int8:
        values = ((values.astype(np.int8) ^ (1 << (bits - 1))) - (1 << (bits - 1))).astype(np.int8)
    values = values.reshape(shape)
    small = SMALL.get(name)
    if small is None:
        return values
    return values.view(small) if name == "f4e2m1" else values.astype(small)


def _strings(owner: _tenon.Context, array: np.ndarray) -> _tenon.Tensor:
    items = array.reshape(-1).tolist()
    return _tenon.Tensor.strings(owner, array.shape, [i if isinstance(i, (str, bytes)) else str(i) for i in items])


def from_array(owner: _tenon.Context, array: np.ndarray, name: str | None = None) -> _tenon.Tensor:
    """A tensor of an array, over its memory where it can be. `name`: the type it is, where the array holds bits."""
    array = dense(array)
    name = name or dtype_name(array.dtype)
    if name == "str":
        return _strings(owner, array)
    if name in PACKED:
        return _tenon.Tensor.packed(owner, name, array.shape, _pack(array, PACKED[name][2]))
    if name in BITS:
        return _tenon.Tensor.wrap(owner, array.view(BITS[name][1]), name)
    return _tenon.Tensor.wrap(owner, array)


def _takes_bits(name: str, kind: np.dtype) -> bool:
    row = BITS.get(name) or PACKED.get(name)
    return row is not None and (kind == np.dtype(row[1]) or kind == SMALL.get(name))


def to_input(owner: _tenon.Context, value: Any, want: str | None, what: str) -> Any:
    """What Session.run takes for a value: the array itself where it can be shared. `want`: the element type declared."""
    plain = PLAIN.get(want) if want else None
    if type(value) is np.ndarray and value.dtype is plain:
        return dense(value)
    if isinstance(value, _tenon.Tensor):
        return value
    if not isinstance(value, np.ndarray):
        value = _array_of(value, want)
    kind = value.dtype
    if want == "str" and kind.kind in "USO":
        return from_array(owner, value, "str")
    if want and _takes_bits(want, kind):
        return from_array(owner, value, want)
    name = "str" if kind.kind in "USO" else NAMES.get(kind.newbyteorder("="))
    if name is None or (want and name != want):
        got = f"tensor({spelled(name)})" if name else f"numpy's {kind}"
        text = f"Unexpected input data type. Actual: ({got}) , expected: (tensor({spelled(want)})), for {what}"
        raise InvalidArgument("INVALID_ARGUMENT", text)
    if name in PLAIN:
        return dense(value)
    return from_array(owner, value, name)


def _array_of(value: Any, want: str | None) -> np.ndarray:
    """Lists and numbers take the type that is wanted; what knows its own type keeps it."""
    if hasattr(value, "__array__") or hasattr(value, "__array_struct__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if want == "str":
        return np.asarray(value, dtype=object)
    kind = PLAIN.get(want or "") or SMALL.get(want or "")
    return np.asarray(value, dtype=kind)


def to_array(tensor: _tenon.Tensor) -> Any:
    """An array over the tensor's memory; a list, dict or None of those for what is no tensor."""
    if tensor.kind != "tensor":
        return _to_object(tensor)
    name = tensor.dtype
    if name in PLAIN:
        return np.asarray(tensor)
    if name == "str":
        array = np.empty(tensor.shape, dtype=object)
        array.reshape(-1)[:] = tensor.get_strings()
        return array
    array = np.asarray(tensor)
    if name in PACKED:
        return _unpack(array, tensor.shape, name)
    return array.view(SMALL[name]) if name in SMALL else array


def _to_object(value: _tenon.Tensor) -> Any:
    # Items may lie in memory that others read, so they are copied.
    items = [_to_object(item) if item.kind != "tensor" else np.array(to_array(item), copy=True) for item in value.items()]
    if value.kind == "sequence":
        return items
    if value.kind == "optional":
        return items[0] if items else None
    keys, values = items
    return dict(zip(keys.tolist(), values if isinstance(values, list) else values.tolist()))


def to_tensor(owner: _tenon.Context, value: Any, type_text: str, what: str) -> Any:
    """What Session.run takes for a value of the engine's type "f32[2]", "seq(f32[*])", "opt(...)", "map(i64, ...)"."""
    if isinstance(value, _tenon.Tensor):
        return value
    kind, inner = split_type(type_text)
    if kind == "tensor":
        return to_input(owner, value, inner, what)
    if kind == "sequence":
        if not isinstance(value, (list, tuple)):
            raise InvalidArgument("INVALID_ARGUMENT", f"a list of arrays is wanted for {what}")
        return _object(owner, kind, [to_tensor(owner, item, inner, what) for item in value])
    if kind == "optional":
        return _object(owner, kind, [] if value is None else [to_tensor(owner, value, inner, what)])
    if not isinstance(value, dict):
        raise InvalidArgument("INVALID_ARGUMENT", f"a dict is wanted for {what}")
    key_type, value_type = inner.split(", ", 1)
    keys = to_input(owner, list(value), key_type, what)
    return _object(owner, "map", [keys, to_tensor(owner, list(value.values()), value_type, what)])


def _object(owner: _tenon.Context, kind: str, items: list[Any]) -> _tenon.Tensor:
    tensors = (item if isinstance(item, _tenon.Tensor) else from_array(owner, item) for item in items)
    return _tenon.Tensor.from_items(owner, kind, tuple(tensors))


def split_type(text: str) -> tuple[str, Any]:
    """("tensor", "f32") of "f32[2,3]", ("sequence", "f32[*]") of "seq(f32[*])"."""
    for prefix, kind in (("seq(", "sequence"), ("opt(", "optional"), ("map(", "map")):
        if text.startswith(prefix) and text.endswith(")"):
            return kind, text[len(prefix) : -1]
    name = text.split("[", 1)[0]
    return "tensor", name if name in ONNX else None


def ort_type(text: str) -> str:
    """onnxruntime's spelling: "tensor(float)", "seq(tensor(float))"."""
    kind, inner = split_type(text)
    if kind == "tensor":
        return f"tensor({spelled(inner)})"
    if kind == "map":
        key, value = inner.split(", ", 1)
        return f"map({spelled(key)},{ort_type(value)})"
    return f"{'seq' if kind == 'sequence' else 'optional'}({ort_type(inner)})"
