"""A launch that failed after its folder was published: it is taken back where nothing of it can ever have run."""

from __future__ import annotations

import errno
from contextlib import suppress

from spurproc.client.removal import remove_cgroups, retire_folder
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import (
    InvalidArgument,
    SpawnError,
    SpurprocError,
    SystemCallError,
    Unsupported,
    WaitTimeout,
    from_errno,
)
from spurproc.proto.step_folder import StateFolder, StepFolder

__all__ = ["failure_of", "withdraw_unsent", "withdrawn"]

_LOCK_WITHIN_S = 5.0
_PLAIN = (Unsupported, WaitTimeout, InvalidArgument)


def withdraw_unsent(state: StateFolder, step: StepFolder) -> None:
    """For its launcher, while that holds the lock: nobody was told of it."""
    with suppress(SpurprocError):
        retire_folder(state, step, durable=False)


def withdrawn(state: StateFolder, step: StepFolder, failure: SpurprocError) -> SpurprocError:
    """What to raise, once the step is taken back, or is known not to be ours to take back."""
    left = _withdraw(state, step)
    message = f"cannot launch step {step.runtime_id}: {failure}"
    return _like(failure, f"{message}; {left}: it can be adopted as {step.runtime_id}" if left else message)


def _withdraw(state: StateFolder, step: StepFolder) -> str:
    """Empty, or why it is left. That no leader is on record proves something only under the lock."""
    try:
        lock = FolderLock.take_within(step.folder, _LOCK_WITHIN_S)
        if lock is None:
            return "its supervisor may be at work"
        with lock:
            if not step.folder.is_named():
                return ""
            descriptor, history = step.descriptor(), step.history()
            if history.gate_opening is not None or (descriptor is not None and descriptor.leader is not None):
                return "its leader may have run"
            if history.hooks_begun:
                return "its prolog may have run"
            remove_cgroups(step)
            retire_folder(state, step, durable=False)
    except SpurprocError as error:
        return f"its folder stays ({error})"
    return ""


def failure_of(end: ExitInfo) -> SpurprocError:
    """Of a supervisor that gave up before it was ready, by the end that it recorded."""
    reason = end.reason or str(end)
    return _from_number(end.errno, reason) if end.errno else Unsupported(reason)


def _from_number(number: int, reason: str) -> SystemCallError:
    """The class for an errno, with words of our own."""
    return type(from_errno(number, "", ""))(number, reason)


def _like(failure: SpurprocError, message: str) -> SpurprocError:
    if isinstance(failure, SystemCallError) and not isinstance(failure, SpawnError):
        return type(failure)(failure.errno or errno.EIO, message)
    kind = next((kind for kind in _PLAIN if isinstance(failure, kind)), None)
    return SystemCallError(errno.EIO, message) if kind is None else kind(message)
