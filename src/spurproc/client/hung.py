"""A supervisor that lives and says nothing: it is ended by its identity, so that a host takes the step over."""

from __future__ import annotations

import errno
import signal

from spurproc.client.connection import Gone, StepConnection
from spurproc.client.place import OpenedStep
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import AlreadyGone, Busy, InvalidArgument

__all__ = ["kill_hung_supervisor"]

_DEAD_WITHIN_S = 30.0


def kill_hung_supervisor(opened: OpenedStep, unanswered_s: float) -> ProcessIdentity:
    """Kill whoever the descriptor names, if it does not answer, and wait for its death. See `Step.kill_hung_supervisor`."""
    if not unanswered_s > 0:
        raise InvalidArgument(f"unanswered_s: {unanswered_s!r} is not above 0")
    cannot = f"cannot kill the supervisor of step {opened.runtime_id}"
    descriptor = opened.descriptor()
    if descriptor is None:
        raise Busy(errno.EAGAIN, f"{cannot}: its records name none yet")
    supervisor = descriptor.supervisor
    if supervisor.liveness() is Liveness.GONE:  # its zombie can still be opened
        raise AlreadyGone(errno.ESRCH, f"{cannot}: process {supervisor.pid} is gone")
    with supervisor.open() as pidfd:
        if _answers(opened, unanswered_s):
            raise Busy(errno.EBUSY, f"{cannot}: it answers")
        pidfd.send_signal(signal.SIGKILL)
        pidfd.wait(_DEAD_WITHIN_S)
    return supervisor


def _answers(opened: OpenedStep, within_s: float) -> bool:
    try:
        StepConnection.open(opened, within_s).close()
    except Gone:
        return False
    return True
