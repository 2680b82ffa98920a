# SPDX-License-Identifier: Apache-2.0
"""Element types, and the operands, results and attributes that an op may have: ONNX's schemas, and for other domains
what the engine says of itself."""
import collections
import json
import os
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

ONNX_NAMES = {
    "float": "f32", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "int32": "i32", "int64": "i64",
    "string": "str", "bool": "bool", "float16": "f16", "double": "f64", "uint32": "u32", "uint64": "u64",
    "complex64": "c64", "complex128": "c128", "bfloat16": "bf16", "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "uint4": "u4", "int4": "i4",
    "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0", "uint2": "u2", "int2": "i2", "float6e2m3": "f6e2m3",
    "float6e3m2": "f6e3m2",
}  # fmt: skip
TYPE_NUMBERS = {name: number for number, name in enumerate(ONNX_NAMES.values(), 1)}  # TensorProto.DataType
TYPE_OF_NUMBER = {number: name for name, number in TYPE_NUMBERS.items()}

# How elements are held. f16 and bf16 stand as float32 until they are written: computed in float32, rounded once.
NUMPY = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_, "str": object, "c64": np.complex64,
    "c128": np.complex128, "f16": np.float32, "bf16": np.float32, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0": ml_dtypes.float8_e8m0fnu, "f4e2m1": ml_dtypes.float4_e2m1fn, "u4": ml_dtypes.uint4, "i4": ml_dtypes.int4,
    "u2": ml_dtypes.uint2, "i2": ml_dtypes.int2,
}  # fmt: skip
EXACT = {**NUMPY, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
UNKNOWN = ("f6e2m3", "f6e3m2")  # the engine has no 6-bit floats
STORED = ("f16", "bf16")
FLOATS = ("f32", "f64", "f16", "bf16")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
SMALL_INTEGERS = ("u4", "i4", "u2", "i2")
SMALL_FLOATS = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1")
COMPLEX = ("c64", "c128")
ARITHMETIC = ("f32", "f64", "i32", "i64")  # what every op that computes takes


def integer_range(dtype):
    if dtype in SMALL_INTEGERS:
        bits, signed = int(dtype[1:]), dtype[0] == "i"
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    info = np.iinfo(NUMPY[dtype])
    return int(info.min), int(info.max)


def round_to(a, dtype):
    """Values of `dtype`, in the type that they are held in."""
    with np.errstate(all="ignore"):
        if dtype in STORED:
            return np.asarray(a).astype(EXACT[dtype]).astype(np.float32)
        return np.asarray(a).astype(NUMPY[dtype])


# ---- types of values ------------------------------------------------------------------------------------------------


def inner_type(kind):
    """Of seq(f32), opt(f32), map(i64, f32): what stands in the brackets."""
    return kind[4:-1]


def type_proto(kind, shape=None):
    if kind.startswith("seq("):
        return helper.make_sequence_type_proto(type_proto(inner_type(kind)))
    if kind.startswith("opt("):
        return helper.make_optional_type_proto(type_proto(inner_type(kind)))
    if kind.startswith("map("):
        key, value = inner_type(kind).split(", ")
        proto = onnx.TypeProto()
        proto.map_type.key_type = TYPE_NUMBERS[key]
        proto.map_type.value_type.CopyFrom(type_proto(value))
        return proto
    return helper.make_tensor_type_proto(TYPE_NUMBERS[kind], shape)


# ---- schemas --------------------------------------------------------------------------------------------------------

Formal = collections.namedtuple("Formal", "name parameter optional variadic")
# parameters: what each type parameter may be, as `f32`, `seq(f32)`, `opt(seq(f32))`, `map(i64, f32)`.
# attributes: by name, whether it is required.
Schema = collections.namedtuple("Schema", "domain name inputs outputs parameters attributes")


def full_name(schema):
    return f"{schema.domain}.{schema.name}" if schema.domain else schema.name


def type_name(text):
    """tensor(float) -> f32, seq(tensor(float)) -> seq(f32), map(int64, tensor(float)) -> map(i64, f32)"""
    match = re.fullmatch(r"(tensor|seq|optional|map)\((.*)\)", text)
    if not match:
        return ONNX_NAMES[text]
    kind, inner = match.groups()
    if kind == "map":
        key, value = inner.split(",", 1)
        return f"map({type_name(key.strip())}, {type_name(value.strip())})"
    return type_name(inner) if kind == "tensor" else f"{'opt' if kind == 'optional' else kind}({type_name(inner)})"


def of_onnx(schema):
    parameters = {}
    for constraint in schema.type_constraints:
        kinds = map(type_name, constraint.allowed_type_strs)
        parameters[constraint.type_param_str] = [kind for kind in kinds if not any(name in kind for name in UNKNOWN)]

    def formals(specs):
        result = []
        for spec in specs:
            if spec.type_str not in parameters:
                parameters[spec.type_str] = [type_name(spec.type_str)]
            kind = onnx.defs.OpSchema.FormalParameterOption
            result.append(Formal(spec.name, spec.type_str, spec.option == kind.Optional, spec.option == kind.Variadic))
        return result

    attributes = {name: attribute.required for name, attribute in schema.attributes.items()}
    return Schema(schema.domain, schema.name, formals(schema.inputs), formals(schema.outputs), parameters, attributes)


def of_engine(said):
    parameters = {}

    def formals(specs):
        result = []
        for spec in specs:
            name = spec["group"] or spec["name"]
            parameters.setdefault(name, spec["types"])
            result.append(Formal(spec["name"], name, bool(spec["optional"]), bool(spec["variadic"])))
        return result

    inputs, outputs = formals(said["inputs"]), formals(said["outputs"])
    return Schema(said["domain"], said["name"], inputs, outputs, parameters, said["attributes"])


def read_schemas(build):
    """By full name, for all that the engine knows."""
    table = os.path.join(build, "tests", "unit", "test_op_table")
    lines = subprocess.run([table, "--schemas"], check=True, capture_output=True, text=True).stdout.splitlines()
    schemas = {}
    for said in map(json.loads, lines):
        if onnx.defs.has(said["name"], domain=said["domain"]):
            schema = of_onnx(onnx.defs.get_schema(said["name"], domain=said["domain"]))
        else:
            schema = of_engine(said)
        schemas[full_name(schema)] = schema
    return schemas
