"""How a process ended, and how that is known. Never guessed: what nobody can know is UNKNOWN, with its reason."""

from __future__ import annotations

import enum
import errno as _errno
import os
import signal as _signal
import time
from dataclasses import dataclass
from typing import Any, Self

from spurproc.errors import ExitUnknown, InvalidArgument, NotStarted, ProcessFailed

__all__ = ["ExitInfo", "ExitKind", "ExitSource", "ResourceUsage"]


class ExitKind(enum.Enum):
    """How a process ended."""

    EXITED = "exited"
    """By exit(3) or a return from main, with a code from 0 to 255."""
    SIGNALED = "signaled"
    """By a signal. A shell's 128 + N is no signal but a code."""
    NOT_STARTED = "not-started"
    """It was never exec'd: nothing of the program ran."""
    UNKNOWN = "unknown"
    """It still runs, or nobody can say; `reason` tells which."""


class ExitSource(enum.Enum):
    """Who says so, strongest first."""

    WAITED = "waited"
    """waitid(2) of the parent."""
    PIDFD = "pidfd"
    """The kernel's record of a reaped process, read through a kept pidfd (6.15)."""
    RECORDED = "recorded"
    """A recorder's file."""
    ZOMBIE = "zombie"
    """Field 52 of /proc/PID/stat of a process that nobody has reaped yet; needs ptrace rights over it."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """What a reaped process and its own reaped children used, in microseconds, bytes and counts. Source: getrusage(2).

    `max_rss_bytes` is the peak of the largest of them, not a sum. Children that were not reaped by their parent are not in it.
    """

    user_usec: int
    system_usec: int
    max_rss_bytes: int
    minor_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitInfo:
    """How a process ended.

    `code` is set for EXITED, `signal` for SIGNALED, `stage` (the name of a `SpawnStage`), `errno` and `interpreter` for
    NOT_STARTED, `reason` for UNKNOWN. `observed_at` is the wall clock, in seconds, when it was learnt. `oom_kills`: how many
    processes of its cgroup the kernel killed for want of memory, None where nobody counted. `trusted` is False where the job
    itself could have written what we read.
    """

    kind: ExitKind
    source: ExitSource
    observed_at: float
    code: int | None = None
    signal: int | None = None
    core_dumped: bool = False
    oom_kills: int | None = None
    usage: ResourceUsage | None = None
    trusted: bool = True
    stage: str | None = None
    errno: int | None = None
    reason: str | None = None
    interpreter: str | None = None

    @classmethod
    def from_wait_status(
        cls,
        status: int,
        *,
        source: ExitSource,
        usage: ResourceUsage | None = None,
        oom_kills: int | None = None,
        trusted: bool = True,
    ) -> ExitInfo:
        """From a status as wait(2) gives it. Raises InvalidArgument for one that is not the end of a process (a stop)."""
        number, core, high = (status & 0x7F, bool(status & 0x80), status >> 8) if _is_status(status) else (0, True, 0)
        exited = number == 0 and not core
        if not exited and (high != 0 or not 1 <= number <= 64):
            raise InvalidArgument(f"cannot read the wait status {status!r}: not the end of a process")
        return cls(
            kind=ExitKind.EXITED if exited else ExitKind.SIGNALED,
            source=source,
            observed_at=time.time(),
            code=high if exited else None,
            signal=None if exited else number,
            core_dumped=core,
            oom_kills=oom_kills,
            usage=usage,
            trusted=trusted,
        )

    @classmethod
    def unknown(cls, reason: str) -> ExitInfo:
        """Nobody can know, and why."""
        return cls(kind=ExitKind.UNKNOWN, source=ExitSource.NONE, observed_at=time.time(), reason=reason)

    @classmethod
    def not_started(
        cls,
        stage: str,
        errno: int,
        *,
        interpreter: str | None = None,
        reason: str | None = None,
        source: ExitSource = ExitSource.WAITED,
        trusted: bool = True,
    ) -> ExitInfo:
        """The program never ran: `errno` at `stage`; 0 where it was killed before it got to say."""
        return cls(
            kind=ExitKind.NOT_STARTED,
            source=source,
            observed_at=time.time(),
            stage=stage,
            errno=errno,
            interpreter=interpreter,
            reason=reason,
            trusted=trusted,
        )

    @property
    def returncode(self) -> int:
        """As subprocess has it: the exit code, or minus the signal. Raises ExitUnknown or NotStarted instead of inventing one."""
        match self.kind:
            case ExitKind.EXITED if self.code is not None:
                return self.code
            case ExitKind.SIGNALED if self.signal is not None:
                return -self.signal
            case ExitKind.NOT_STARTED:
                raise NotStarted(f"no return code: {self}")
            case _:
                raise ExitUnknown(f"no return code: {self}")

    @property
    def succeeded(self) -> bool:
        """Known to have exited with code 0. Never raises."""
        return self.kind is ExitKind.EXITED and self.code == 0

    def check(self) -> Self:
        """Itself if it succeeded, else ProcessFailed, which carries it."""
        if not self.succeeded:
            raise ProcessFailed(str(self), self)
        return self

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`; what is not set is left out."""
        form: dict[str, Any] = {"kind": self.kind.value, "source": self.source.value, "observed_at": self.observed_at}
        for name in ("code", "signal", "oom_kills", "stage", "errno", "reason", "interpreter"):
            if (value := getattr(self, name)) is not None:
                form[name] = value
        if self.kind is ExitKind.SIGNALED:
            form["core_dumped"] = self.core_dumped
        if self.usage is not None:
            form["usage"] = {name: getattr(self.usage, name) for name in ResourceUsage.__slots__}
        form["trusted"] = self.trusted
        return form

    def __str__(self) -> str:
        match self.kind:
            case ExitKind.EXITED:
                return f"exited {self.code}"
            case ExitKind.SIGNALED:
                return f"killed by {_signal_name(self.signal)}" + (", core dumped" if self.core_dumped else "")
            case ExitKind.NOT_STARTED:
                return f"not started: {_errno_text(self.errno)} at stage {self.stage}"
            case _:
                return f"unknown: {self.reason}"


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF


def _signal_name(number: int | None) -> str:
    try:
        return _signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


def _errno_text(number: int | None) -> str:
    if not number:
        return "ended before exec"
    return f"{os.strerror(number)} ({_errno.errorcode.get(number, number)})"
