"""All attempts of the node: how one is taken on, once, however often it is said; and what the node shows of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.effects import EffectRunner, Failpoint
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.finished import Finished
from spurproc.agent.attempts.foreign import Foreign
from spurproc.agent.attempts.held_back import HeldBack
from spurproc.agent.attempts.leaderless import Leaderless
from spurproc.agent.attempts.overdue import Overdue
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.table import LIVE
from spurproc.agent.controller.link import Dispatch
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.store.attempt_row import AttemptState, CancelIntent
from spurproc.agent.store.attempts import accept
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP

__all__ = ["Attempts", "OutdatedOrder"]

_RETRY_S = 1.0
_CLEARED = (AttemptState.REPORTING, AttemptState.FORGETTING)


class OutdatedOrder(SpurprocError):
    """An attempt is to be run in whose place a later one is here already; nothing was done."""

    def __init__(self, attempt: AttemptId, later: AttemptId) -> None:
        super().__init__(f"cannot take on attempt {attempt}: attempt {later} of that job is here")


class Attempts:
    """Those that are not forgotten. A `NodeView` for the controller link."""

    def __init__(self, around: Surroundings, *, failpoint: Failpoint | None = None) -> None:
        self._around = around
        self._known: dict[AttemptId, Attempt] = {}
        self._of_job: dict[int, list[Attempt]] = {}
        self._waiting: dict[AttemptId, Attempt] = {}
        options = {} if failpoint is None else {"failpoint": failpoint}
        self.held_back = HeldBack(around, self._live)
        self.runner = EffectRunner(around, self._left, self.freed, self.held_back.look_behind, **options)
        self.foreign = Foreign(around)
        self.leaderless = Leaderless(around, self._live, self.runner.watcher.look)
        self.finished = Finished(around, self.runner.spawn)
        self.overdue = Overdue(around, self._live, self.cancel)

    # What the node shows.

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(tuple(self._known.values()))

    def find(self, attempt: AttemptId) -> Attempt | None:
        """None for one that was never taken on, or is forgotten."""
        return self._known.get(attempt)

    def fits(self, request: ResourceRequest) -> bool:
        """See `NodeView`. Nothing fits a node that drains."""
        return not self._around.drains and not self._around.halted and self._around.resources.fits(request)

    def has(self, attempt: AttemptId) -> bool:
        """See `NodeView`. Where a step folder stands it was launched, whatever the store says.

        True before its row is durable: else the order would be given again, and its own claim would leave no room for it. Nobody
        may rest on it for longer than this agent lives. The built-in queue forgets it in memory alone, in this very process, and
        says again what its database has as dispatched; any other has to, at the next registration.
        """
        return attempt in self._known or self._has_folder(attempt) or self.finished.is_answering(attempt)

    def _has_folder(self, attempt: AttemptId) -> bool:
        return os.path.lexists(f"{self._around.state_dir.steps.path}/runtime/{attempt.step(BATCH_STEP)}")

    def cancelling(self, attempt: AttemptId) -> bool:
        """See `NodeView`."""
        known = self._known.get(attempt)
        return known is None or known.cancel is not None or known.state not in LIVE

    def _live(self) -> Iterator[Attempt]:
        return (attempt for attempt in self._known.values() if attempt.state in LIVE)

    @property
    def running(self) -> tuple[AttemptId, ...]:
        """Those of which something runs, or may."""
        return tuple(attempt.id for attempt in self._live())

    @property
    def owes_nothing(self) -> bool:
        """Whether nothing runs, is on its way, or is owed. One question, one answer.

        A bare reservation is nothing of these; nor is a report that the controller has refused for good.
        """
        return all(attempt.is_reservation or attempt.owes_a_refused_report for attempt in self._known.values())

    # How one is taken on.

    async def take_on(self, order: Dispatch) -> None:
        """Its resources are claimed at once; from the moment when both are durable it runs. Said again it changes nothing.

        Of one that is over it is told again how it ended.

        Raises OutdatedOrder, and as `ResourceTable.allocate`.
        """
        if self.has(order.attempt):
            return
        if self.finished.covers(order.attempt):
            self.finished.tell_again(order.attempt, order.spec)
            return
        later = max((one.id for one in self._of_job.get(order.attempt.job_id, ())), default=order.attempt)
        if later > order.attempt:
            raise OutdatedOrder(order.attempt, later)
        spec = order.spec
        allocation = self._around.resources.allocate(order.attempt, spec.resources, bare=spec.reservation)
        attempt = Attempt(
            id=order.attempt,
            allocation=allocation,
            accepted_at=self._around.clock(),
            uid=spec.uid,
            spec=spec,
            is_reservation=spec.reservation,
        )
        self.add(attempt)
        self.runner.spawn(attempt, lambda _: self._accept(attempt, spec, allocation))

    async def _accept(self, attempt: Attempt, spec: JobSpec, allocation: Allocation) -> None:
        body = partial(accept, attempt=attempt.id, spec=spec, allocation=allocation, at=attempt.accepted_at)
        while not self._around.halted:
            self._around.ownership.require()
            try:
                await self._around.database.write(body)
            except OwnershipLost:
                raise
            except SpurprocError as error:
                self._around.log.warning("cannot be taken on yet", attempt=str(attempt.id), error=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                self._around.log.info("accepted", attempt=str(attempt.id), job_name=spec.name, uid=spec.uid)
                if attempt.state is AttemptState.ACCEPTED:  # nobody was quick enough to end it
                    self.begin(attempt)
                return

    def add(self, attempt: Attempt) -> None:
        """One that was found at a start, or is taken on. Of those before it in its job nobody has to take the report."""
        self._known[attempt.id] = attempt
        of_job = self._of_job.setdefault(attempt.id.job_id, [])
        for one in of_job:
            if one.id < attempt.id:
                one.displaced_by = attempt.id
        of_job.append(attempt)
        attempt.displaced_by = attempt.displaced_by or self.finished.later_than(attempt.id)

    def begin(self, attempt: Attempt) -> None:
        """Go on with it; after any earlier attempt of its job has cleared the node."""
        earlier = self._before(attempt)
        if attempt.state is not AttemptState.ACCEPTED or not earlier:
            self.runner.post(attempt, AttemptEvent.BEGIN)
            return
        self._waiting[attempt.id] = attempt
        for one in earlier:
            self.displace(one, attempt.id)

    def _before(self, attempt: Attempt) -> list[Attempt]:
        """Earlier attempts of its job that have not cleared the node; also one of which nobody knows what it holds."""
        earlier = (one for one in self._of_job.get(attempt.id.job_id, ()) if one.id < attempt.id)
        return [one for one in earlier if one.has_claim or one.state not in _CLEARED]

    def displace(self, earlier: Attempt, later: AttemptId) -> None:
        """A later attempt of its job is here: it ends, and nobody has to take its report."""
        earlier.displaced_by = later
        if earlier.state in LIVE:
            self._around.log.warning("displaced", attempt=str(earlier.id), by=str(later))
            self.cancel(earlier, self._around.intent(f"attempt {later} has taken its place"))

    def freed(self) -> None:
        """Resources were given back: who waited for an earlier attempt may begin."""
        for attempt in list(self._waiting.values()):
            if not self._before(attempt):
                del self._waiting[attempt.id]
                self.runner.post(attempt, AttemptEvent.BEGIN)

    def cancel(self, attempt: Attempt, intent: CancelIntent) -> None:
        """End exactly this one. The first intent stands, and its kill plan is begun once: to ask again puts nothing off.

        Of one that is over nobody says that it was told to end.
        """
        if attempt.state in LIVE:
            attempt.cancel = intent if attempt.cancel is None else intent.after(attempt.cancel)
        if attempt.state is AttemptState.ACCEPTED:
            self._waiting.pop(attempt.id, None)
        self.runner.post(attempt, AttemptEvent.CANCEL)

    def _left(self, attempt: Attempt) -> None:
        self._known.pop(attempt.id, None)
        self.finished.add(attempt.id)
        others = [one for one in self._of_job.pop(attempt.id.job_id, ()) if one is not attempt]
        if others:
            self._of_job[attempt.id.job_id] = others
        self._waiting.pop(attempt.id, None)
