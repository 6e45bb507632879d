"""Row 12 of the protocol: the end of a step is durable where it has to be known."""

from __future__ import annotations

import errno
import time
from contextlib import closing

from spurproc.client.connection import Gone, StepConnection, refusal
from spurproc.client.place import OpenedStep
from spurproc.core.durable.journal import Journal
from spurproc.core.durable.lock import FolderLock
from spurproc.errors import Busy
from spurproc.proto.codec import encode
from spurproc.proto.journal_record import Acknowledged, History
from spurproc.proto.messages import Acknowledge, Refused
from spurproc.proto.owed import is_over
from spurproc.proto.step_state import StepState

__all__ = ["acknowledge"]

_LOCK_WITHIN_S = 5.0


def acknowledge(opened: OpenedStep, *, left_within_s: float = 0.0) -> None:
    """Through its supervisor if it answers, else under the lock; once it is acknowledged, nothing. Raises Busy.

    Back once that supervisor has left, which it does then, but after `left_within_s` all the same.
    """
    if opened.history().acknowledged is not None:
        return
    request = Acknowledge(runtime_id=opened.runtime_id)
    try:
        with StepConnection.open(opened) as connection:
            reply = connection.ask(request)
            if not isinstance(reply, Refused):
                connection.await_gone(left_within_s)
    except Gone:
        _under_lock(opened)
        return
    if isinstance(reply, Refused):
        if reply.state is not StepState.LEAVING:
            raise refusal(request, reply)
        _under_lock(opened)


def _under_lock(opened: OpenedStep) -> None:
    what = f"cannot acknowledge step {opened.runtime_id}"
    lock = FolderLock.take_within(opened.step.folder, _LOCK_WITHIN_S)
    if lock is None:
        raise Busy(errno.EBUSY, f"{what}: its lock is held, by a supervisor that does not answer or one that comes up")
    with lock:
        opened.check_named()
        history = opened.history()
        if history.acknowledged is not None:
            return
        if not is_over(opened.launch, history):
            raise Busy(errno.EBUSY, f"{what}: {_owed(history)}")
        opened.step.folder.sync_above()
        with closing(Journal.open(opened.step.folder)) as journal:
            journal.append(encode(Acknowledged(at=time.time())))


def _owed(history: History) -> str:
    if history.end is None:
        return "its end is not recorded yet"
    return "its epilog is not completed" if history.emptied is not None else "its tree is not proven empty"
