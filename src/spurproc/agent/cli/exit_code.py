"""What the exit code of `spurd` says."""

from __future__ import annotations

import enum

from spurproc.core.exit_info import ExitInfo, ExitKind

__all__ = ["ExitCode", "code_of_end"]


class ExitCode(enum.IntEnum):
    """Of every command but `serve`. `wait` and `submit --wait` pass the job's on; all else they say by 2 and from 124 on."""

    DONE = 0
    FAILED = 1
    """It was refused, or could not be done."""
    USAGE = 2
    """The command line, or what it asks for, means nothing."""
    UNREACHABLE = 3
    """No agent answers."""
    UNSUPPORTED = 5
    """This node could never do it."""
    BUSY = 6
    """Not now."""
    TIMED_OUT = 124
    """The time of --timeout is over, and the job is not. As timeout(1) has it."""
    END_UNKNOWN = 125
    """The end is UNKNOWN, or cannot be learnt: refused, no agent, ..."""
    NOT_STARTED = 126
    """The job ended without ever having run."""
    INTERRUPTED = 130
    """SIGINT, as shells count it. The job goes on."""
    BROKEN_PIPE = 141
    """The reader of the output went away: SIGPIPE, as shells count it."""


def code_of_end(end: ExitInfo | None) -> int:
    """The exit of a job, passed on: its code; 128 + N for signal N; 126 where it never ran; 125 where nobody knows."""
    if end is None:
        return ExitCode.END_UNKNOWN
    match end.kind:
        case ExitKind.EXITED if end.code is not None:
            return end.code
        case ExitKind.SIGNALED if end.signal is not None:
            return 128 + end.signal
        case ExitKind.NOT_STARTED:
            return ExitCode.NOT_STARTED
        case _:
            return ExitCode.END_UNKNOWN
