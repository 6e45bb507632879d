"""How long to wait: seconds at the edge, absolute monotonic times inside."""

from __future__ import annotations

import time

from spurproc.errors import InvalidArgument

__all__ = ["checked_seconds", "deadline_after"]


def checked_seconds(name: str, value: object) -> float:
    """`value` if it is a span of seconds, infinite or negative ones included. A NaN is none: no comparison with it ever ends."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - true of a NaN alone
        raise InvalidArgument(f"cannot be {name}: {value!r}")
    return float(value)


def deadline_after(timeout_s: object) -> float | None:
    """The absolute monotonic time `timeout_s` from now; None for no deadline. Raises InvalidArgument."""
    return None if timeout_s is None else time.monotonic() + checked_seconds("timeout_s", timeout_s)
