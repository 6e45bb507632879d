"""Where the time of a call goes: functions inside of it, timed while it runs, in a pass of their own that decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.measure import Figure, Samples, Start, absent


def part(call: str, name: str) -> str:
    """The figure of one part of `call`."""
    return f"{call}: {name}"


def is_part(call: str, figure: str) -> bool:
    """Whether that is a figure of a part of `call`."""
    return figure.startswith(part(call, ""))


def measure_parts(call: str, start: Start, places: Mapping[str, str], times: int) -> list[Figure]:
    """Microseconds that each part takes of one call, with what it calls itself; so a part may lie within another.

    `places`: the name of a part, and where its function is looked up, as `module:name` or `module:Class.name`. One that is not
    there any more is shown as missing.
    """
    rounds: dict[str, list[Samples]] = {}
    missing: dict[str, str] = {}
    spent_ns: dict[str, int] = {}
    with ExitStack() as stack:
        for name, place in places.items():
            try:
                stack.enter_context(_timed(place, partial(_add, spent_ns, name)))
                rounds[name] = []
            except AttributeError as error:
                missing[name] = str(error)
        for turn in range(-1, times):  # the first one warms up
            spent_ns.update(dict.fromkeys(rounds, 0))
            clear = start()
            taken = {name: [spent_ns[name] / 1000] for name in rounds}
            clear()
            for name in rounds if turn >= 0 else ():
                rounds[name].append(taken[name])
    figures = [Figure(name=part(call, name), unit="us", rounds=rounds[name]) for name in rounds]
    return figures + [absent(part(call, name), "us", why) for name, why in missing.items()]


def _add(spent_ns: dict[str, int], name: str, taken_ns: int) -> None:
    spent_ns[name] += taken_ns


@contextmanager
def _timed(place: str, report: Callable[[int], None]) -> Iterator[None]:
    """Put a clock around one function for a while."""
    module, _, path = place.partition(":")
    *above, name = path.split(".")
    owner: Any = import_module(module)
    undo: tuple[Any, str, Any] | None = None
    for step in above:
        inner = getattr(owner, step)
        if not isinstance(inner, type):
            undo = (owner, step, inner)
            inner = _StandIn(inner)
            setattr(owner, step, inner)
        owner = inner
    original = getattr(owner, name)
    static = vars(owner).get(name)
    setattr(owner, name, _clocked(static if isinstance(static, (classmethod, staticmethod)) else original, report))
    try:
        yield
    finally:
        setattr(owner, name, original if static is None else static)
        if undo is not None:
            setattr(*undo)


def _clocked(original: Any, report: Callable[[int], None]) -> Any:
    if isinstance(original, (classmethod, staticmethod)):
        return type(original)(_clocked(original.__func__, report))

    def clocked(*arguments: Any, **keywords: Any) -> Any:
        begun = time.perf_counter_ns()
        try:
            return original(*arguments, **keywords)
        finally:
            report(time.perf_counter_ns() - begun)

    return clocked


class _StandIn:
    """In the place of an object that takes no attributes: the C core."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)
