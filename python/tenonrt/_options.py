# SPDX-License-Identifier: Apache-2.0
"""SessionOptions, RunOptions and their enumerations. docs/python.md says which of them have an effect."""
from __future__ import annotations

import enum
import os
import threading
import warnings
from typing import Any, Iterable

from . import _passes, _tenon
from ._errors import Fail, InvalidArgument


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_ACCURACIES = ("normal", "high")  # tn_accuracy


class _Options:
    """Takes the names of its table and no others, so that a misspelt one is an error."""

    _defaults: dict[str, Any] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        object.__setattr__(self, name, value)


class SessionOptions(_Options):
    """What an InferenceSession is made with."""

    _defaults = {
        "intra_op_num_threads": 0,
        "inter_op_num_threads": 0,
        "enable_profiling": False,
        "profile_file_prefix": "tenon_profile_",
        "optimized_model_filepath": "",
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "log_severity_level": 2,
        "log_verbosity_level": 0,
        "logid": "",
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
        "passes": None,
        "lowering": "",
        "accuracy": "normal",
        "tuning_file": "",
        "tune": False,
    }
    intra_op_num_threads: int
    inter_op_num_threads: int
    enable_profiling: bool
    profile_file_prefix: str
    optimized_model_filepath: str
    graph_optimization_level: GraphOptimizationLevel
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    use_deterministic_compute: bool
    use_per_session_threads: bool
    accuracy: str  # of kernels: "normal", or "high", without Winograd's algorithm and the like; Tenon's own
    lowering: str  # how ops are run, "Conv=geometry,*=origin"; Tenon's own
    tuning_file: str  # which ways to compute are the fastest, as measured before; Tenon's own
    tune: bool  # measure what the file lacks, and add it; Tenon's own
    passes: Any  # names, or the text of a pipeline, in place of the default list; Tenon's own

    def __init__(self) -> None:
        super().__init__()
        self._free_dimensions: dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def _tuning(self) -> tuple[str | None, bool]:
        if self.tune and not self.tuning_file:
            raise InvalidArgument("INVALID_ARGUMENT", "tune needs a tuning_file, which all runs at once share")
        return os.fspath(self.tuning_file) or None, bool(self.tune)

    def _settings(self, passes: Any, disabled: Iterable[str]) -> tuple[Any, ...]:
        """Which passes run: those of the options unless a session's own arguments say otherwise."""
        level = self.graph_optimization_level
        wanted = self.passes if passes is None else passes
        listed = self._entries.get("optimization.disable_specified_optimizers", "").split(";")
        names = dict.fromkeys(name.strip().replace("_", "-") for name in (*disabled, *listed) if name.strip())
        known = set(_tenon.passes())
        for name in names.keys() - known:
            warnings.warn(f"there is no pass {name!r} to be disabled", UserWarning, stacklevel=4)
        settings = _passes.settings(wanted, min(int(level), 2), (), [name for name in names if name in known])
        if self.accuracy not in _ACCURACIES:
            raise InvalidArgument("INVALID_ARGUMENT", f"accuracy is {self.accuracy!r}; there are {_ACCURACIES}")
        return (*settings, self.lowering or None, _ACCURACIES.index(self.accuracy))

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """The symbol `name` in inputs' shapes is this number: other sizes are refused."""
        self._free_dimensions[str(name)] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Accepted; denotations are not read from models, so it has no effect."""

    def add_initializer(self, name: str, value: Any) -> None:
        raise NotImplementedError("replace the constant through tenonrt.load(...).graph instead")

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplementedError("onnxruntime's custom op libraries cannot be loaded")

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        """Accepted: models run on the processor."""


class RunOptions(_Options):
    """What one run is made with."""

    _defaults = {
        "log_severity_level": 2,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "timeout": 0.0,
        "terminate": False,
    }
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    timeout: float  # seconds, 0 for none; Tenon's own
    terminate: bool

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Any] = []
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and value:
            with self._lock:
                for session in self._running:
                    session.cancel()

    def _begin(self, session: Any) -> None:
        with self._lock:
            if self.terminate:
                raise Fail("CANCELLED", "Exiting due to terminate flag being set to true.")
            self._running.append(session)

    def _end(self, session: Any) -> bool:
        """Whether the session may run again: one that was told to stop may have been too late to hear of it."""
        with self._lock:
            self._running.remove(session)
            return not self.terminate

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        return self._entries.get(key, "")
