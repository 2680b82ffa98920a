# SPDX-License-Identifier: Apache-2.0
"""Exceptions. The classes have the names that onnxruntime gives them, so that scripts which catch those go on working."""
from . import _tenon


class TenonError(Exception):
    """What the engine refuses or fails at. `status` is its code ("SHAPE"), `diagnostics` its text, most important first."""

    def __init__(self, status: str, diagnostics: str = ""):
        super().__init__(status, diagnostics)
        self.status = status
        self.diagnostics = diagnostics or status

    def __str__(self) -> str:
        return f"[Tenon] {self.status}: {self.diagnostics}"


class Fail(TenonError):
    pass


class InvalidArgument(TenonError):
    pass


class NoSuchFile(TenonError):
    pass


class NoModel(TenonError):
    pass


class EngineError(TenonError):
    pass


class RuntimeException(TenonError):
    pass


class InvalidProtobuf(TenonError):
    pass


class ModelLoaded(TenonError):
    pass


class NotImplemented(TenonError):  # noqa: A001  (onnxruntime's name)
    pass


class InvalidGraph(TenonError):
    pass


class EPFail(TenonError):
    pass


class MissingInput(InvalidArgument, ValueError):
    """An input was not fed. onnxruntime raises a ValueError here."""


_tenon.set_error_types(
    {
        "INVALID_ARGUMENT": InvalidArgument,
        "OUT_OF_MEMORY": RuntimeException,
        "NOT_FOUND": InvalidArgument,
        "IO": NoSuchFile,
        "MALFORMED": InvalidProtobuf,
        "INVALID_MODEL": InvalidGraph,
        "UNSUPPORTED": NotImplemented,
        "SHAPE": InvalidArgument,
        "OUT_OF_RANGE": InvalidArgument,
        "LIMIT": RuntimeException,
        "CANCELLED": Fail,
        "DEADLINE": Fail,
        "STATE": Fail,
        "INTERNAL": EngineError,
    }
)
