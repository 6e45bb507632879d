"""A run in a sandbox: system calls that are really refused to the code under test, its children and its static program.

SPURPROC_MASK hides a facility from our own probe; what calls the kernel without asking the probe is only found out this way.
"""

from __future__ import annotations

import errno
import os

from tests import seccomp
from tests.pidfds import SPARED_FLAGS

REFUSED_VARIABLE = "SPURPROC_TEST_REFUSED"
"""Environment variable: "pidfd_open=EPERM,clone3=ENOSYS": what this run is to be refused, and how."""

NUMBERS = {"pidfd_send_signal": 424, "pidfd_open": 434, "clone3": 435, "close_range": 436}
"""The same on x86-64 and on arm64."""


def refused() -> dict[str, int]:
    """Name and errno of each call that this run is refused."""
    parts = [part.partition("=") for part in os.environ.get(REFUSED_VARIABLE, "").split(",") if part]
    return {name: getattr(errno, how) for name, _, how in parts}


def enter() -> None:
    """Refuse them from now on, once and for all."""
    for name, number in refused().items():
        refuse(name, number)


def refuse(name: str, error: int, *, spare_harness: bool = True) -> None:
    """Refuse the call `name` with `error` to this process and its children; `spare_harness`: but not what `open_pidfd` does."""
    spared = (1, SPARED_FLAGS) if name == "pidfd_open" and spare_harness else None
    seccomp.refuse(NUMBERS[name], error, spared=spared)
