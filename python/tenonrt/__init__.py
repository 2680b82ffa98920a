# SPDX-License-Identifier: Apache-2.0
"""Tenon from Python: onnxruntime's interface for running models, and the engine's own for reading and changing them.

    import tenonrt as ort
    session = ort.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": array})
"""
from __future__ import annotations

from typing import Any

from . import _arrays, _tenon, capi, passes
from ._binding import IOBinding, OrtDevice, OrtValue, from_dlpack
from ._errors import TenonError
from ._model import Graph, Model, Node, Value, load
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._passes import PassRecord, PassRun, load_plugin, register_pass, unregister_pass
from ._session import (
    InferenceSession,
    ModelMetadata,
    NodeArg,
    get_all_providers,
    get_available_providers,
    get_device,
)
from ._walk import Mutator, StopVisit, Visitor, visit

__version__: str = _tenon.version

__all__ = [
    "ExecutionMode", "ExecutionOrder", "Graph", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "Model",
    "ModelMetadata", "Mutator", "Node", "NodeArg", "OrtDevice", "OrtValue", "PassRecord", "PassRun", "RunOptions",
    "SessionOptions", "StopVisit", "TenonError", "Value", "Visitor", "capi", "disable_telemetry_events",
    "enable_telemetry_events", "from_dlpack", "get_all_providers", "get_available_providers", "get_build_info",
    "get_device", "get_version_string", "has_collective_ops", "load", "load_plugin", "measure_peak", "ops", "passes", "register_pass",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_seed", "unregister_pass", "visit",
]  # fmt: skip


def ops() -> list[tuple[str, str, str, str]]:
    """(domain, name, kind, summary) of every op that the engine knows."""
    return _tenon.ops()


def measure_peak(threads: int = 0, nbytes: int = 0) -> dict[str, Any]:
    """What no kernel exceeds on this machine with so many threads, measured now: `flops` (float32), `read` and `copy` (bytes; a
    copied byte counts twice) a second, and `isa`. `nbytes`: over how much memory; 0: more than the caches hold."""
    return _arrays.context(threads).measure_peak(nbytes)


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    return f"Tenon {__version__}"


def has_collective_ops() -> bool:
    return False


def _no_effect(*_: Any) -> None:
    """Accepted for scripts that call it; has no effect."""


set_default_logger_severity = set_default_logger_verbosity = set_seed = _no_effect
disable_telemetry_events = enable_telemetry_events = _no_effect

_tenon.load_plugins_from_env()
