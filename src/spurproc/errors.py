"""Every exception that spurproc raises; in brackets, the built-in class that it also is.

::

    SpurprocError
    |- InvalidArgument (ValueError)         the caller passed something that cannot mean anything
    |  `- ConfigurationInvalid              settings of the agent that cannot be used: each with where it stands
    |- Unsupported                          this host cannot do it; says what is missing
    |- SystemCallError (OSError)            the kernel said no; `errno` is real
    |  |- KernelTooOld                      ENOSYS and its like: the kernel lacks it
    |  |- NotPermitted (PermissionError)    EPERM, EACCES
    |  |- AlreadyGone (ProcessLookupError)  ESRCH, ENOENT, ENODEV, ESTALE: what was named is not there any more
    |  |- Busy                              EBUSY, EAGAIN, ETXTBSY
    |  |  |- AlreadyOwned                   another agent has the state folder; says which
    |  |  `- LaunchedBefore                 a host has launched this step, or has seen its end
    |  `- SpawnError                        a program did not start; says at which stage
    |- OwnershipLost                        the agent's state folder is not its own any more: nothing is written there
    |- SignalRefused                        a signal that spurproc will not send: pid <= 1, the caller itself, its own cgroup
    |- NotCgroup2                           a folder that poses as a cgroup
    |- IdentityUnreadable                   a process whose identity cannot be established
    |- ExitUnknown                          asked for a return code that nobody can know
    |- NotStarted                           asked for the return code of a program that never ran
    |- ProcessFailed                        `check()` on a run that did not succeed
    |- WaitTimeout (TimeoutError)           the deadline passed; the process still runs
    |  `- RunTimeout                        `run` ended everything at its deadline; carries the result so far
    |- RunUnproven                          `run` cannot prove that nothing lives on: says why and who; carries the result so far
    |- SentinelRefused                      an exit record that may not be believed
    `- RecordInvalid                        a record on disk, or a message, that cannot be read
       `- RecordTooNew                      one of a later version than this program understands
"""

from __future__ import annotations

import errno as _errno
import os

TYPE_CHECKING = False  # as in the package: `typing` is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "AlreadyGone",
    "AlreadyOwned",
    "Busy",
    "ConfigurationInvalid",
    "ExitUnknown",
    "IdentityUnreadable",
    "InvalidArgument",
    "KernelTooOld",
    "LaunchedBefore",
    "NotCgroup2",
    "NotPermitted",
    "NotStarted",
    "OwnershipLost",
    "ProcessFailed",
    "RecordInvalid",
    "RecordTooNew",
    "RunTimeout",
    "RunUnproven",
    "SentinelRefused",
    "SignalRefused",
    "SpawnError",
    "SpurprocError",
    "SystemCallError",
    "Unsupported",
    "WaitTimeout",
    "from_errno",
]


class SpurprocError(Exception):
    """The root: everything that spurproc raises on purpose."""


class InvalidArgument(SpurprocError, ValueError):
    """An argument that cannot mean anything; the message names it."""


class ConfigurationInvalid(InvalidArgument):
    """Settings that cannot be used; `problems` are all of them, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class Unsupported(SpurprocError):
    """This host cannot do what was asked for, and there is no weaker way that would be honest."""


class SystemCallError(SpurprocError, OSError):
    """The kernel refused a system call. `errno` and `strerror` are the kernel's own."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(errno, message)

    def __str__(self) -> str:
        return str(self.strerror)


class KernelTooOld(SystemCallError):
    """The kernel lacks the call, the flag or the file."""


class NotPermitted(SystemCallError, PermissionError):
    """The caller may not do this."""


class AlreadyGone(SystemCallError, ProcessLookupError):
    """The process, cgroup or file is not there any more."""


class Busy(SystemCallError):
    """The kernel cannot do it now and may later."""


class AlreadyOwned(Busy):
    """Another agent has the state folder; `owner` is its identity as text, None where it cannot be read."""

    def __init__(self, message: str, owner: str | None) -> None:
        self.owner = owner
        super().__init__(_errno.EBUSY, message)


class LaunchedBefore(Busy):
    """A host has forked a supervisor of this step, or has seen its end: something of it may have run."""


class SpawnError(SystemCallError):
    """A program did not start: `errno` at `stage`, for `argv0`.

    `stage` is the name of a `SpawnStage`; `interpreter` is what a script's first line or a binary's loader entry
    names, where that is what is missing or may not be executed.
    """

    def __init__(self, errno: int, stage: str, argv0: str, *, interpreter: str | None = None, detail: str = "") -> None:
        self.stage = stage
        self.argv0 = argv0
        self.interpreter = interpreter
        missing = f": its interpreter {interpreter!r}" if interpreter is not None else ""
        reason = detail or (os.strerror(errno) if errno else "the child ended before it reached exec")
        super().__init__(errno, f"cannot start {argv0!r}{missing}: {reason} (stage {stage})")


class OwnershipLost(SpurprocError):
    """The path of the agent's state folder does not lead to what it owns: the folder, or its lock, was removed or replaced."""


class SignalRefused(SpurprocError):
    """A signal that would, or could, reach something other than the job."""


class NotCgroup2(SpurprocError):
    """A folder that does not lie on a cgroup2 file system."""


class IdentityUnreadable(SpurprocError):
    """A live process of which no identity can be established; none is ever invented."""


class ExitUnknown(SpurprocError):
    """How the process ended cannot be known; the message says why."""


class NotStarted(SpurprocError):
    """The program never ran, so it has no return code."""


class ProcessFailed(SpurprocError):
    """The process did not succeed; `exit_info` is how it ended."""

    def __init__(self, message: str, exit_info: object) -> None:
        self.exit_info = exit_info
        super().__init__(message)


class WaitTimeout(SpurprocError, TimeoutError):
    """The deadline passed and what was waited for had not happened."""


class RunTimeout(WaitTimeout):
    """A run was ended at its deadline; `result` is how, with the output until then."""

    def __init__(self, message: str, result: Any) -> None:
        self.result = result
        super().__init__(message)


class RunUnproven(SpurprocError):
    """`run` has killed what it could find, and cannot prove that nothing is left; `result` is how far it got.

    `result.leftovers.survivors` are those seen to live. None are where the proof itself was lost: the job killed its keeper.
    """

    def __init__(self, message: str, result: Any) -> None:
        self.result = result
        super().__init__(message)


class SentinelRefused(SpurprocError):
    """An exit record that may not be believed; `reason` is one machine-readable word."""

    def __init__(self, reason: str, path: str) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"cannot believe the exit record {path!r}: {reason}")


class RecordInvalid(SpurprocError):
    """A record on disk that cannot be read; `path` is left in place."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"cannot read the record {path!r}: {reason}")


class RecordTooNew(RecordInvalid):
    """Written by a later version of spurproc, `version`; it is left in place for that one."""

    def __init__(self, path: str, version: int) -> None:
        self.version = version
        super().__init__(path, f"its version is {version}, which is newer than what this program understands")


_CLASSES: dict[int, type[SystemCallError]] = {
    _errno.ENOSYS: KernelTooOld,
    _errno.EOPNOTSUPP: KernelTooOld,
    _errno.ENOTTY: KernelTooOld,
    _errno.EPERM: NotPermitted,
    _errno.EACCES: NotPermitted,
    _errno.ESRCH: AlreadyGone,
    _errno.ENOENT: AlreadyGone,
    _errno.ENODEV: AlreadyGone,
    _errno.ESTALE: AlreadyGone,
    _errno.EBUSY: Busy,
    _errno.EAGAIN: Busy,
    _errno.ETXTBSY: Busy,
}


def from_errno(errno: int, verb: str, noun: str) -> SystemCallError:
    """The exception for `errno`: "cannot VERB NOUN: reason". The only map from errno to class."""
    message = f"cannot {verb} {noun}: {os.strerror(errno)}"
    return _CLASSES.get(errno, SystemCallError)(errno, message)
