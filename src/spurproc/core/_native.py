"""The only importer of the compiled core: its `lib` and `ffi`, and the one place where -errno becomes an exception."""

from __future__ import annotations

from spurproc.core._spurcore import ffi, lib
from spurproc.errors import from_errno

__all__ = ["check", "ffi", "lib"]


def check(result: int, verb: str, noun: str) -> int:
    """`result`, or the exception for -errno: "cannot VERB NOUN: reason"."""
    if result < 0:
        raise from_errno(-result, verb, noun)
    return result
