# SPDX-License-Identifier: Apache-2.0
"""Every pass of the engine, of plug-ins and of Python as a function: tenonrt.passes.fold_constants(model, max_bytes=4096).

Each takes a model, or a graph of one, runs on the whole model in place, and returns a PassRecord, which is true when the
model changed. Options are keywords. `dir(tenonrt.passes)` lists them, `help` of one says what it does."""
from __future__ import annotations

from typing import Any

from . import _passes
from ._errors import TenonError


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"there is no pass {name!r}")
    try:
        return _passes.pass_function(name)
    except TenonError as error:
        raise AttributeError(error.diagnostics) from None


def __dir__() -> list[str]:
    return sorted(_passes.pass_names())
