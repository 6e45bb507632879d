"""How long to wait: seconds at the edge, absolute monotonic times inside."""

from __future__ import annotations

import time
from typing import overload

from spurproc.errors import InvalidArgument

__all__ = ["checked_seconds", "deadline_after", "earlier", "has_passed", "left_s", "poll_ms", "shortest_s", "whole_poll_ms"]

_DAY_S = 86_400.0


def checked_seconds(name: str, value: object) -> float:
    """`value` if it is a span of seconds, infinite or negative ones included. A NaN is none: no comparison with it ever ends."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - true of a NaN alone
        raise InvalidArgument(f"cannot be {name}: {value!r}")
    return float(value)


def deadline_after(timeout_s: object) -> float | None:
    """The absolute monotonic time `timeout_s` from now; None for no deadline. Raises InvalidArgument."""
    return None if timeout_s is None else time.monotonic() + checked_seconds("timeout_s", timeout_s)


@overload
def earlier(deadline: float | None, span_s: float) -> float: ...
@overload
def earlier(deadline: float | None, span_s: None) -> float | None: ...
def earlier(deadline: float | None, span_s: float | None) -> float | None:
    """The absolute end of `span_s` from now, or `deadline` if that is earlier."""
    if span_s is None:
        return deadline
    end = time.monotonic() + span_s
    return end if deadline is None else min(end, deadline)


def has_passed(deadline: float | None) -> bool:
    """Whether the time of `deadline` has come; never without one."""
    return deadline is not None and time.monotonic() >= deadline


def left_s(deadline: float | None) -> float | None:
    """Seconds until `deadline`, 0 when it has passed; None without one."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def shortest_s(*times_s: float | None) -> float | None:
    """The shortest of the times, None standing for ever."""
    return min((time_s for time_s in times_s if time_s is not None), default=None)


def poll_ms(timeout_s: float | None) -> float | None:
    """`timeout_s` for select.poll: poll(2) counts milliseconds in an int, so a longer wait is cut in steps of a day."""
    return None if timeout_s is None else min(timeout_s, _DAY_S) * 1000


def whole_poll_ms(timeout_s: float | None) -> int:
    """As poll(2) itself counts, -1 for ever; rounded up, as select.poll does, so that nobody looks again before it is time."""
    return -1 if timeout_s is None else -int(min(timeout_s, _DAY_S) * -1000 // 1)
