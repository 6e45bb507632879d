"""How `spurd serve` ends."""

from __future__ import annotations

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """What a service manager, or a script, is told."""

    STOPPED = 0
    """Asked to end, and did; jobs may live on under their supervisors."""
    FAILED = 1
    """It could not start, or go on; the last line of its log says why."""
    MISUSED = 2
    """A command line or configuration that means nothing: another try would end the same."""
    QUARANTINED = 75
    """A shutdown could not prove that all of a tree was gone; nothing is served until it is. EX_TEMPFAIL of sysexits.h(3head)."""
    OWNERSHIP_LOST = 125
    """The state folder was removed or replaced under it; it has served nothing since, and waited to be ended."""
