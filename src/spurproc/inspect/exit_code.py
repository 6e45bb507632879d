"""What the program's exit code says."""

from __future__ import annotations

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """The same for every command; docs/reference/inspect.md says what 0 and 1 mean for each."""

    HOLDS = 0
    """It holds; the process succeeded."""
    FAILS = 1
    """It does not hold, the process failed, or what was asked for is not there, not permitted or not known."""
    USAGE = 2
    """The command line means nothing."""
    STILL_RUNNING = 4
    """The time is over, or the end is not known yet."""
    UNSUPPORTED = 5
    """This host lacks what that takes."""
    INTERRUPTED = 130
    """SIGINT, as shells count it."""
    BROKEN_PIPE = 141
    """The reader of the output went away: SIGPIPE, as shells count it."""
