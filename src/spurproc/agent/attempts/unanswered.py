"""Supervisors that live and say nothing: named, and ended where a job waits for nothing else, so that a host records its end.

A supervisor that is slow is none of these: as long as its leader lives, or may, it is left alone. A host that says nothing is
named, and left alone as well: it alone saw the ends that it has not recorded yet.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.client.status import StepStatus
from spurproc.client.step import Step
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Seen", "Unanswered", "see"]

_ENDED_AFTER_S = 60.0
_HELLO_WITHIN_S = 5.0
"""A last look before it is ended."""


class Seen(NamedTuple):
    """What a look at a step has found. None: its records name no such process."""

    status: StepStatus
    supervisor: Liveness | None
    leader: Liveness | None

    @property
    def is_hung(self) -> bool:
        """It lives, and has not answered."""
        return not self.status.supervised and self.supervisor is Liveness.ALIVE

    @property
    def waits_for_host(self) -> bool:
        """Nobody else is left who could do something for it."""
        return not self.status.supervised and self.supervisor is Liveness.GONE and self.leader is Liveness.GONE


def see(step: Step) -> Seen:
    """Ask, and look. Blocks for seconds where nobody answers. Raises what `Step.status` does."""
    status = step.status()
    supervisor, leader = status.supervisor, status.leader
    return Seen(
        status=status,
        supervisor=None if supervisor is None else supervisor.liveness(),
        leader=None if leader is None else leader.liveness(),
    )


class Unanswered:
    """Told of each look at an attempt that was told to end, or whose leader was gone at the look before."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._since: dict[AttemptId, tuple[ProcessIdentity, float]] = {}

    async def take(self, attempt: Attempt, step: Step, seen: Seen) -> None:
        """Name who does not answer; and end a supervisor whose leader is gone, or was none, at each look for a minute."""
        supervisor = seen.status.supervisor
        if seen.waits_for_host:
            self._since.pop(attempt.id, None)
            host = attempt.trace.host
            self._name(
                attempt, f"its supervisor is dead, and its host{f', process {host.pid},' if host else ''} has not seen to it"
            )
            return
        waits_for_it = seen.leader is Liveness.GONE or attempt.cancel is not None
        if supervisor is None or not seen.is_hung or not waits_for_it:
            self.forget(attempt)
            return
        what = f"its supervisor, process {supervisor.pid}, does not answer"
        self._name(attempt, what)
        if seen.leader not in (Liveness.GONE, None):
            self._since.pop(attempt.id, None)
        elif self._is_due(attempt, supervisor):
            await self._end(attempt, step, what)

    def _name(self, attempt: Attempt, what: str) -> None:
        if _cause(attempt) not in self._around.problems:
            self._around.log.warning("held up", attempt=str(attempt.id), why=what)
        self._around.problems[_cause(attempt)] = f"attempt {attempt.id} is held up: {what}"

    def _is_due(self, attempt: Attempt, supervisor: ProcessIdentity) -> bool:
        """Not at the first look at that very supervisor."""
        now_s = asyncio.get_running_loop().time()
        who, since_s = self._since.setdefault(attempt.id, (supervisor, now_s))
        if who != supervisor:
            self._since[attempt.id] = (supervisor, now_s)
            return False
        return since_s < now_s and now_s - since_s >= _ENDED_AFTER_S

    async def _end(self, attempt: Attempt, step: Step, what: str) -> None:
        self._around.ownership.require()
        try:
            await self._around.blocking.walk(step.kill_hung_supervisor, unanswered_s=_HELLO_WITHIN_S)
        except SpurprocError as error:  # it answers after all, or has died; or the kernel does not end it, which is tried again
            self._around.log.warning("a supervisor is not ended", attempt=str(attempt.id), why=str(error))
            return
        self._around.log.warning("ended a supervisor", attempt=str(attempt.id), why=what)
        self.forget(attempt)

    def forget(self, attempt: Attempt) -> None:
        """It answers, is dead, or is over."""
        self._since.pop(attempt.id, None)
        self._around.problems.pop(_cause(attempt), None)


def _cause(attempt: Attempt) -> str:
    return f"attempt {attempt.id}: its supervisor"
