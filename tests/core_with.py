"""The C core with some functions of a test's own: to come in between two of its calls. What they do not do themselves is real."""

from __future__ import annotations

from collections.abc import Callable

from spurproc.core._native import lib

__all__ = ["CoreWith"]


class CoreWith:
    """Put it in the place of a module's `lib`."""

    def __init__(self, **functions: Callable[..., int]) -> None:
        self.__dict__ |= functions

    def __getattr__(self, name: str) -> object:
        return getattr(lib, name)
