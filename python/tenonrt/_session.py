# SPDX-License-Identifier: Apache-2.0
"""InferenceSession, as onnxruntime has it."""
from __future__ import annotations

import json
import os
import threading
import time
import warnings
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from . import _arrays, _tenon
from ._binding import IOBinding, OrtValue
from ._errors import Fail, InvalidArgument, MissingInput
from ._model import Model
from ._options import RunOptions, SessionOptions

PROVIDERS = ["CPUExecutionProvider"]


def get_available_providers() -> list[str]:
    return list(PROVIDERS)


def get_all_providers() -> list[str]:
    return list(PROVIDERS)


def get_device() -> str:
    return "CPU"


class NodeArg:
    """An input or output: `name`, `type` ("tensor(float)"), `shape` (numbers, symbols' names, None where not known)."""

    def __init__(self, info: tuple[Any, ...], sizes: dict[str, int] | None = None):
        self.name, kind, self._dtype, shape, self._has_default, self._type = info
        self.type = _arrays.ort_type(self._type)
        dims = [(sizes or {}).get(dim, dim) for dim in shape or ()]
        self.shape: list[int | str | None] | None = dims if shape is not None or kind != "tensor" else None

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """What a model says about itself."""

    _own = ("producer_name", "producer_version", "domain", "doc_string", "model_version", "ir_version", "opset")

    def __init__(self, model: Model):
        fields = model.metadata
        version = fields.get("model_version", "")
        self.producer_name = fields.get("producer_name", "")
        self.graph_name = model.graph.name
        self.domain = fields.get("domain", "")
        self.description = fields.get("doc_string", "")
        self.graph_description = fields.get("graph_doc_string", "")
        self.version = int(version) if version.lstrip("-").isdigit() else 0
        own = lambda key: key in self._own or key.startswith("opset ")  # noqa: E731
        self.custom_metadata_map = {key: value for key, value in fields.items() if not own(key)}


_Path = tuple[tuple[str, ...], tuple[str, ...], "str | None"]


def _path(begin: Sequence[str], end: Sequence[str], lowering: str | None = None) -> _Path:
    return tuple(begin), tuple(end), lowering or None


class _Pool:
    """Sessions of the engine for one choice of outputs: as many as have run at once. `paths`: some say how ops are run; then
    all of them run for any outputs, since the earliest that needs an op has its say."""

    def __init__(
        self,
        model: Model,
        outputs: tuple[str, ...],
        passes: tuple[Any, ...],
        tuning: tuple[str | None, bool],
        paths: tuple[_Path, ...] = (),
    ):
        if paths:
            ends = tuple(dict.fromkeys(name for _, end, _ in paths for name in end))
            besides = tuple(name for name in outputs if name not in ends)
            paths += (((), besides, None),) if besides else ()
            outputs = ends + besides
        self._model, self.outputs, self._passes, self._tuning, self._paths = model, outputs, passes, tuning, paths
        self._idle: list[_tenon.Session] = []
        self._single = False

    def take(self) -> _tenon.Session:
        try:
            return self._idle.pop()
        except IndexError:
            if self._single:
                raise Fail("STATE", "a session with state is running in another thread") from None
            file, tune = self._tuning
            outputs = () if self._paths else self.outputs
            return _tenon.Session(
                self._model, outputs, passes=self._passes, tuning_file=file, tune=tune, paths=self._paths
            )

    def give(self, session: _tenon.Session) -> None:
        self._idle.append(session)

    def keep_only(self, session: _tenon.Session) -> None:
        """It has a state, which no other one shares."""
        self._single = True
        self._idle = [session]


def _open(source: Any, threads: int) -> Model:
    if isinstance(source, Model):
        if source.changed:
            source.verify()
            source.infer()
        return source
    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    return Model.load(source, threads=threads)


class InferenceSession:
    """A model ready to run. Any number of threads may call `run` at once.

    `path_or_bytes`: a file's name, the bytes of one, an onnx.ModelProto, or a tenonrt.Model. `threads`: as
    SessionOptions.intra_op_num_threads; 0 is one for each processor. `passes`: a list of passes, as names or as the text of a
    pipeline, that takes the place of the default one; as SessionOptions.passes. `disabled_optimizers`: names of passes.
    `paths`: run only these parts of the model, as Model.extract has them; a path may have a third item, how those of its ops
    are run that no earlier path needs, as SessionOptions.lowering says it.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | Model | Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        threads: int | None = None,
        passes: str | Sequence[str] | None = None,
        disabled_optimizers: Iterable[str] | None = None,
        paths: Sequence[tuple[Sequence[str], Sequence[str]] | tuple[Sequence[str], Sequence[str], str | None]] | None = None,
        **kwargs: Any,
    ):
        for name in kwargs:
            if name not in ("read_config_from_model", "enable_fallback"):
                raise TypeError(f"InferenceSession got an unexpected keyword argument {name!r}")
        self._options = sess_options if sess_options is not None else SessionOptions()
        self.set_providers(providers, provider_options)
        self._threads = int(self._options.intra_op_num_threads if threads is None else threads)
        self._context = _arrays.context(self._threads)
        self._passes = self._options._settings(passes, disabled_optimizers or ())
        self._model = _open(path_or_bytes, self._threads)
        self._paths: tuple[_Path, ...] = ()
        if paths:
            parts = tuple(_path(*path) for path in paths)
            self._model = self._model.extract(*(part[:2] for part in parts))
            self._paths = parts if any(lowering for _, _, lowering in parts) else ()
        self._states: list[tuple[str, str]] = []
        self._is_alone = False  # there is one session only, which keeps what it was told
        self._describe()
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, ...], _Pool] = {}
        all_outputs = self._pool(self._output_names)
        all_outputs.give(all_outputs.take())
        self._profile = _Profile(self._options.profile_file_prefix) if self._options.enable_profiling else None
        if self._options.optimized_model_filepath:
            better, _ = _tenon.Model.optimize(self._model, self._passes)
            better.save(self._options.optimized_model_filepath)

    def _describe(self) -> None:
        sizes = self._options._free_dimensions
        self._args = [NodeArg(info, sizes) for info in self._model.inputs()]
        self._output_args = [NodeArg(info, sizes) for info in self._model.outputs()]
        self._names = {arg.name: i for i, arg in enumerate(self._args)}
        self._output_names = tuple(arg.name for arg in self._output_args)
        self._required = [arg.name for arg in self._args if not arg._has_default and not arg.type.startswith("optional")]
        self._wants = [arg._dtype if arg.type.startswith("tensor(") else None for arg in self._args]
        # Input, dimension, the number that an option gave its symbol.
        self._fixed = [
            (i, k, sizes[dim], dim)
            for i, info in enumerate(self._model.inputs())
            for k, dim in enumerate(info[3] or ())
            if isinstance(dim, str) and dim in sizes
        ]

    # Questions.

    def get_inputs(self) -> list[NodeArg]:
        return [arg for arg in self._args if not arg._has_default]

    def get_overridable_initializers(self) -> list[NodeArg]:
        return [arg for arg in self._args if arg._has_default]

    def get_outputs(self) -> list[NodeArg]:
        return list(self._output_args)

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._model)

    def get_providers(self) -> list[str]:
        return list(PROVIDERS)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {} for name in PROVIDERS}

    def get_session_options(self) -> SessionOptions:
        return self._options

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Any = None) -> None:
        """Models run on the processor; of others it is said that they are not there."""
        names = [item if isinstance(item, str) else item[0] for item in providers or ()]
        unknown = [name for name in names if name not in PROVIDERS]
        if unknown:
            text = f"Specified provider {', '.join(unknown)} is not in available provider names. Available: {PROVIDERS}"
            warnings.warn(text, UserWarning, stacklevel=3)

    def disable_fallback(self) -> None:
        pass

    def enable_fallback(self) -> None:
        pass

    @property
    def model(self) -> Model:
        """The model that runs; it cannot be changed while this session lives."""
        return self._model

    def info(self) -> dict[str, Any]:
        """The engine's figures: memory, FLOPs, instructions; of the plan used last."""
        return self._ask(lambda session: session.info())

    def instructions(self) -> list[dict[str, Any]]:
        """What runs each op; nanoseconds where the last run was profiled."""
        return self._ask(lambda session: session.instructions())

    def _ask(self, question: Callable[[_tenon.Session], Any]) -> Any:
        pool = self._pool(self._output_names)
        session = pool.take()
        try:
            return question(session)
        finally:
            pool.give(session)

    def _input_name(self, name: str) -> str:
        if name not in self._names:
            raise InvalidArgument("INVALID_ARGUMENT", f"Invalid input name: {name}")
        return name

    def _output_name(self, name: str) -> str:
        if name not in self._output_names:
            raise InvalidArgument("INVALID_ARGUMENT", f"Invalid output name: {name}")
        return name

    # State.

    def bind_state(self, past: str, present: str, capacity: int = 0) -> None:
        """Output `present` is input `past` of the next run: it need not be fed, and is None in what `run` returns. Room is
        kept for `capacity` positions along the dimension in which it grows. The first run begins with what is fed, else
        with zeros, and nothing along that dimension. Such a session runs one at a time."""
        self._alone(lambda session: session.bind_state(past, present, capacity))
        self._states.append((past, present))
        self._required = [name for name in self._required if name != past]

    def reset_state(self) -> None:
        """The next run begins anew."""
        self._ask(lambda session: session.reset_state())

    def set_shape_mode(self, mode: str) -> None:
        """`"traced"` notes at each new set of input sizes which instructions keep theirs (`info()["n_stay"]`); `"fixed"` relies
        on that and refuses sizes that would change it; `"free"` is how a session begins. Such a session runs one at a time."""
        self._alone(lambda session: session.set_shape_mode(mode))

    def _alone(self, change: Callable[[_tenon.Session], Any]) -> None:
        """Changes what must be the only session from now on."""
        pool = self._pool(self._output_names)
        session = pool.take()
        try:
            change(session)
        finally:
            pool.keep_only(session)
            self._is_alone = True

    # Runs.

    def _pool(self, outputs: tuple[str, ...]) -> _Pool:
        if self._is_alone:
            for name in outputs:
                self._output_name(name)  # others would need a session of their own
            outputs = self._output_names
        pool = self._pools.get(outputs)
        if pool is None:
            with self._lock:
                if len(self._pools) > 8:  # choices of outputs, not threads; the first is that of all
                    self._pools.pop(next(key for key in self._pools if key != self._output_names))
                made = _Pool(self._model, outputs, self._passes, self._options._tuning(), self._paths)
                pool = self._pools.setdefault(outputs, made)
        return pool

    def _bind(self, feed: Any) -> tuple[Any, ...]:
        inputs: list[Any] = [None] * len(self._args)
        for name, value in feed.items():
            i = self._names.get(name)
            if i is None:
                raise InvalidArgument("INVALID_ARGUMENT", f"Invalid input name: {name}")
            if isinstance(value, OrtValue):
                inputs[i] = value._tensor
            elif self._wants[i]:
                inputs[i] = _arrays.to_input(self._context, value, self._wants[i], f'input "{name}"')
            else:
                inputs[i] = _arrays.to_tensor(self._context, value, self._args[i]._type, f'input "{name}"')
        missing = [name for name in self._required if name not in feed]
        if missing:
            text = f"Required inputs ({missing}) are missing from input feed ({list(feed)})."
            raise MissingInput("INVALID_ARGUMENT", text)
        for i, arg in enumerate(self._args):
            if inputs[i] is None and not arg._has_default and all(arg.name != past for past, _ in self._states):
                inputs[i] = _arrays.to_tensor(self._context, None, arg._type, f'input "{arg.name}"')
        for i, k, size, symbol in self._fixed:
            if inputs[i] is not None and len(inputs[i].shape) > k and inputs[i].shape[k] != size:
                text = f'input "{self._args[i].name}": {symbol} is {size} by an option of the session, not {inputs[i].shape[k]}'
                raise InvalidArgument("SHAPE", text)
        return tuple(inputs)

    def _execute(self, pool: _Pool, inputs: tuple[Any, ...], outputs: Any, options: RunOptions | None) -> list[_tenon.Tensor]:
        session = pool.take()
        healthy = True
        if options is not None:
            options._begin(session)
        try:
            started = time.perf_counter_ns()
            timeout = int(options.timeout * 1e9) if options is not None else 0
            results = session.run(self._context, inputs, outputs, timeout, self._profile is not None)
            if self._profile is not None:
                self._profile.add(session, started)
            return results
        finally:
            if options is not None:
                healthy = options._end(session)
            if healthy:
                pool.give(session)

    def _run(self, names: Sequence[str] | None, inputs: tuple[Any, ...], options: RunOptions | None) -> list[_tenon.Tensor]:
        if not names:
            return self._execute(self._pool(self._output_names), inputs, None, options)
        unique = tuple(dict.fromkeys(names))
        every = set(unique) == set(self._output_names)
        pool = self._pool(self._output_names if every else unique)
        results = dict(zip(pool.outputs, self._execute(pool, inputs, None, options)))
        return [results[name] for name in names]

    def run(self, output_names: Sequence[str] | None, input_feed: Any, run_options: RunOptions | None = None) -> list[Any]:
        """The outputs named (None: all) for these inputs, as arrays over the engine's memory.

        Any value of the model may be named, besides its outputs. Inputs of the declared type that are dense and aligned
        are read where they are."""
        tensors = self._run(output_names, self._bind(input_feed), run_options)
        return [tensor and _arrays.to_array(tensor) for tensor in tensors]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Any, run_options: RunOptions | None = None
    ) -> list[OrtValue]:
        return [tensor and OrtValue(tensor) for tensor in self._run(output_names, self._bind(input_dict_ort_values), run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Any,
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs in a thread, which then calls callback(results, user_data, error)."""
        inputs = self._bind(input_feed)

        def work() -> None:
            try:
                results = [tensor and _arrays.to_array(tensor) for tensor in self._run(output_names, inputs, run_options)]
            except Exception as error:
                callback([], user_data, str(error))
            else:
                callback(results, user_data, "")

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        if self._states:
            raise Fail("STATE", "a session with state keeps its outputs itself: use run")
        inputs = self._bind(iobinding._inputs)
        names = tuple(iobinding._outputs) or self._output_names
        pool = self._pool(names)
        targets = {name: iobinding._outputs.get(name) for name in pool.outputs}
        results = dict(zip(pool.outputs, self._execute(pool, inputs, tuple(targets.values()), run_options)))
        iobinding._results = [OrtValue(results[name], shared=targets[name] is not None) for name in names]

    def get_profiling_start_time_ns(self) -> int:
        return self._profile.started if self._profile else 0

    def end_profiling(self) -> str:
        """Writes the profile, for chrome://tracing, and returns the file's name."""
        return self._profile.write() if self._profile else ""


class _Profile:
    """The runs' events, in the form that chrome://tracing reads."""

    def __init__(self, prefix: str):
        self.path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        self.started = time.perf_counter_ns()
        self._events: list[dict[str, Any]] = []

    def add(self, session: _tenon.Session, began: int) -> None:
        thread, now = threading.get_ident(), time.perf_counter_ns()
        at = (began - self.started) // 1000
        event = {"ph": "X", "pid": os.getpid(), "tid": thread}
        self._events.append({**event, "cat": "Session", "name": "model_run", "ts": at, "dur": (now - began) // 1000, "args": {}})
        for row in session.instructions():
            took = row["nanoseconds"] // 1000
            args = {"op_name": row["op"], "provider": PROVIDERS[0], "kernel": row["kernel"], "output_shape": row["shape"]}
            self._events.append({**event, "cat": "Node", "name": f"{row['node'] or row['op']}_kernel_time", "ts": at, "dur": took, "args": args})
            at += took

    def write(self) -> str:
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self._events, file)
        return self.path
