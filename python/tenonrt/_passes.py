# SPDX-License-Identifier: Apache-2.0
"""Passes: written in Python, run by name, chosen for a session. docs/first-pass.md is the tutorial."""
from __future__ import annotations

import inspect
import math
import os
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from . import _tenon

PHASES = ("pre-placement", "post-placement", "post-rewrite", "post-partition")
KINDS = ("program", "stmt", "debug")

PassRun = _tenon.PassRun


class PassRecord(NamedTuple):
    """What one pass did, or why it did not run. True when it changed the model."""

    name: str
    """"" for a group: `repeat`, or a phase."""
    text: str
    """As a pipeline spells it, options included."""
    phase: str
    depth: int
    number: int
    """Of those that ran, from 1; 0 for one that did not."""
    outcome: str
    """"ran", "not applicable", "disabled", "up to date", "beyond limit", "failed"."""
    why: str
    changed: bool
    nanoseconds: int
    nodes_before: int
    nodes_after: int
    bytes: int
    n_changes: int
    counts: dict[str, int]
    """Statistics of the pass: {"folded": 3}."""

    def __bool__(self) -> bool:
        return self.changed


def records(rows: list[tuple[Any, ...]]) -> list[PassRecord]:
    return [PassRecord(*row) for row in rows]


# ---- settings


def pipeline_text(passes: str | Iterable[str] | None) -> str | None:
    return passes if passes is None or isinstance(passes, str) else ",".join(passes)


def settings(
    passes: str | Iterable[str] | None = None,
    opt_level: int | None = None,
    add: Iterable[str] = (),
    disable: Iterable[str] = (),
    verify: bool = False,
    max_passes: int = 0,
    max_changes: int = 0,
) -> tuple[Any, ...]:
    """As the extension module takes them."""
    level = -1 if opt_level is None else int(opt_level)
    if not -1 <= level <= 3:
        raise ValueError(f"opt_level is {opt_level}; the levels are 0 to 3")
    added, disabled = ((item,) if isinstance(item, str) else tuple(item) for item in (add, disable))
    return pipeline_text(passes), level, added, disabled, bool(verify), max_passes, max_changes


def spell(name: str, options: Mapping[str, Any]) -> str:
    """A pass as a pipeline has it."""
    return f"{name}({','.join(f'{key}={_spell_value(value)}' for key, value in options.items())})" if options else name


def _spell_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no value for an option")
    return repr(value) if isinstance(value, (int, float)) else _spell_value(str(value))


# ---- passes of one's own


def _words(names: str | Iterable[str]) -> str:
    return names if isinstance(names, str) else " ".join(names)


def _number(value: str | None, names: Sequence[str], what: str) -> int:
    text = "" if value is None else value.replace("_", "-")
    if text in names:
        return names.index(text)
    raise ValueError(f"{value!r} is no {what}; there are {', '.join(name for name in names if name)}")


def _option(name: str, preset: Any) -> tuple[str, str, str]:
    for kind, python_type in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(preset, python_type):
            text = preset if isinstance(preset, str) else _spell_value(preset)
            return name, kind, text
    raise TypeError(f"option {name!r} has the preset {preset!r}, which is neither a number, nor a bool, nor a str")


def _wants_run(function: Callable[..., Any]) -> bool:
    """Whether it takes the run as a second argument: one without a preset, or by that name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # it does not say what it takes
        return False
    if len(parameters) < 2 or parameters[1].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        return False
    return parameters[1].default is inspect.Parameter.empty or parameters[1].name == "run"


def register_pass(
    fn: Callable[..., Any] | None = None,
    *,
    phase: str | None = "post-rewrite",
    order: int = 10,
    name: str | None = None,
    summary: str | None = None,
    kind: str = "program",
    opt_level: int = 0,
    each_graph: bool = False,
    per_shape: bool = False,
    targets: str | Iterable[str] = (),
    excluded: str | Iterable[str] = (),
    kernels: str | Iterable[str] = (),
    required: str | Iterable[str] = (),
    keeps: str | Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Makes fn(graph), or fn(graph, run), a pass of this process. As a decorator too, with or without arguments.

    `phase` and `order`: where it runs in the default list; None: only where a list names it. `kind`: "program" may change
    anything, "stmt" no structure, "debug" nothing. `each_graph`: called for each nested graph too. `per_shape`: has to be
    True at "post-partition", where it runs again for each set of input sizes. `targets`, `excluded`, `kernels`
    ("Gemm", "Conv@cpu"), `required`, `keeps`: names, as in <tenon/plugin.h>. `options`: their presets by name, of type
    bool, int, float or str; run.options has their values.

    The graph is a copy that belongs to the session in the making: handles of it are gone when fn returns. What fn raises
    comes out of whatever ran the pass, and its answer is not looked at."""
    if fn is None:
        given = {key: value for key, value in locals().items() if key != "fn"}
        return lambda function: register_pass(function, **given)
    own_name = name or getattr(fn, "__name__", "")
    if not own_name or own_name == "<lambda>":
        raise ValueError("the function has no name: register_pass(..., name=...)")
    doc = inspect.getdoc(fn) or ""
    call = fn if _wants_run(fn) else lambda graph, run: fn(graph)
    _tenon.register_pass(
        call,
        own_name,
        summary if summary is not None else doc.partition("\n")[0],
        _number(kind, KINDS, "kind"),
        _number(phase, ("", *PHASES), "phase"),
        order,
        opt_level,
        each_graph,
        per_shape,
        *(_words(names) for names in (targets, excluded, kernels, required, keeps)),
        tuple(_option(key, preset) for key, preset in (options or {}).items()),
    )
    return fn


def unregister_pass(name: str | Callable[..., Any]) -> None:
    """By its name, or the function that was registered under its own. Sessions that were made with it are as they are."""
    _tenon.unregister_pass(name if isinstance(name, str) else name.__name__)


def load_plugin(path: str | os.PathLike[str]) -> None:
    """A shared object that brings passes, ops and kernels (docs/plugins.md). Twice the same does nothing."""
    _tenon.load_plugin(path)


# ---- passes as functions


def pass_names() -> list[str]:
    """Of all passes, as identifiers."""
    return [name.replace("-", "_") for name in _tenon.passes()]


def _describe(info: Mapping[str, Any]) -> str:
    lines = [info["summary"] or "A pass."]
    when = f"{info['phase']} {info['order']}" if info["phase"] else "only where a list names it"
    lines.append(f"\nA {info['kind']} pass; runs at {when}." if info["phase"] else f"\nA {info['kind']} pass; runs {when}.")
    lines += [f"{name} ({kind}, {preset or 'none'}): {text}" for name, kind, preset, text in info["options"]]
    return "\n".join(lines)


def pass_function(name: str) -> Callable[..., PassRecord]:
    info = _tenon.pass_info(name)

    def run(target: Any, /, **options: Any) -> PassRecord:
        model = target if isinstance(target, _tenon.Model) else target.model
        done = records(_tenon.Model.run_passes(model, settings(spell(info["name"], options))))
        return next(record for record in reversed(done) if record.depth == 0)

    run.__name__ = run.__qualname__ = info["name"].replace("-", "_")
    run.__doc__ = _describe(info)
    return run
