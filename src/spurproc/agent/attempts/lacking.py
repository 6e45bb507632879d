"""What the node lacks just now to start anything. Nothing has run: it is waited for, and meanwhile the node takes nothing new.

Were it the end of the attempt, a full disk would end the whole queue, one job after the other.
"""

from __future__ import annotations

import asyncio
import errno
import time
from contextlib import suppress
from dataclasses import dataclass, field

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.draining import forget, note, stands
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.store.drains import Drain, DrainKind
from spurproc.errors import SpurprocError, SystemCallError, WaitTimeout
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Lacking", "is_lack", "may_be_lack"]

_CAUSE = "launch"
_FIRST_S, _LAST_S = 0.1, 5.0
_OPEN_WITHIN_S = 600.0
"""How long is waited for what may be a lack of the node, and may as well stay as it is."""

_LACKS = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
    }
)
_NEVER_LACKS = frozenset(
    {
        errno.E2BIG,
        errno.EACCES,
        errno.EINVAL,
        errno.ENAMETOOLONG,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.ERANGE,
    }
)
"""What a job can bring about by what it asks for, and what the kernel will say again."""


def is_lack(error: BaseException) -> bool:
    """For certain: whatever is started here would meet the same, and it passes."""
    return isinstance(error, SystemCallError) and error.errno in _LACKS


def may_be_lack(error: SpurprocError) -> bool:
    """For certain or not, as when the package is being replaced, or a host ends in that moment."""
    return isinstance(error, WaitTimeout) or (isinstance(error, SystemCallError) and error.errno not in _NEVER_LACKS)


@dataclass(slots=True, kw_only=True)
class _Wait:
    """Of one attempt."""

    since: float = field(default_factory=time.monotonic)
    again: asyncio.Event = field(default_factory=asyncio.Event)
    back_off: BackOff = field(default_factory=lambda: BackOff(first_s=_FIRST_S, last_s=_LAST_S))


class Lacking:
    """The attempts that wait to be started. The node drains as long as there are any, unless one could be started since.

    In memory alone: the next agent finds the lack by itself, or none, and a full disk takes no drain.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._waiting: dict[AttemptId, _Wait] = {}

    def has_tried(self, attempt: Attempt) -> bool:
        """Whether it has met a lack before."""
        return attempt.id in self._waiting

    async def passes(self, attempt: Attempt, error: SpurprocError) -> bool:
        """True once it is to be tried again. False: the node lacks nothing, or that was waited for long enough."""
        wait = self._waiting.get(attempt.id) or _Wait()
        if not is_lack(error) and not (may_be_lack(error) and time.monotonic() - wait.since < _OPEN_WITHIN_S):
            return False
        self._waiting[attempt.id] = wait
        wait.again.clear()
        self._drain(error)
        self._around.log.warning("tried again later", attempt=str(attempt.id), error=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait.back_off.next_s()):
                await wait.again.wait()
        return True

    def look(self, attempt: Attempt) -> None:
        """It was told to end: it waits no longer."""
        if attempt.id in self._waiting:
            self._waiting[attempt.id].again.set()

    def started(self, attempt: Attempt) -> None:
        """It was. What kept it from that is over, as far as anybody can tell: all others try again."""
        self._waiting.pop(attempt.id, None)
        for wait in self._waiting.values():
            wait.again.set()
        self._lift()

    def left(self, attempt: Attempt) -> None:
        """It waits no more."""
        if self._waiting.pop(attempt.id, None) is not None and not self._waiting:
            self._lift()

    def _drain(self, error: SpurprocError) -> None:
        """The first reason stands: it is the same for all, but for the names of their files."""
        if stands(self._around, DrainKind.SYSTEM, _CAUSE) is None:
            why = f"nothing can be launched: {error}"
            note(self._around, Drain(kind=DrainKind.SYSTEM, cause=_CAUSE, why=why, since=self._around.clock()))

    def _lift(self) -> None:
        forget(self._around, DrainKind.SYSTEM, _CAUSE)
