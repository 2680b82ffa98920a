# SPDX-License-Identifier: Apache-2.0
"""The names that scripts take from onnxruntime's module of this name."""
from .._binding import OrtDevice, OrtValue
from .._errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,  # noqa: A004
    RuntimeException,
)
from .._options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from .._session import ModelMetadata, NodeArg, get_available_providers, get_device

__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "Fail", "GraphOptimizationLevel", "InvalidArgument", "InvalidGraph",
    "InvalidProtobuf", "ModelLoaded", "ModelMetadata", "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "OrtDevice",
    "OrtValue", "RunOptions", "RuntimeException", "SessionOptions", "get_available_providers", "get_device",
]  # fmt: skip
