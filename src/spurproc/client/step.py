"""One supervised step, as its launcher or any other program of the same user sees it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import NoReturn, Self

from spurproc.client.acknowledging import acknowledge
from spurproc.client.act import StepAct, nobody
from spurproc.client.connection import Gone, StepConnection, refusal
from spurproc.client.direct import resume_directly, signal_directly, suspend_directly, terminate_directly
from spurproc.client.hung import kill_hung_supervisor
from spurproc.client.journal_event import JournalEvent, journal_events
from spurproc.client.output import Stream, read_output
from spurproc.client.place import OpenedStep, StepPlace
from spurproc.client.removal import remove_under_lock
from spurproc.client.status import StepStatus, status_of
from spurproc.client.waiting import wait_for_end, wait_for_end_async
from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.cgroup.sweep import check_signal
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, Unsupported
from spurproc.proto.messages import Refused, Reply, Request, Resume, Signal, Signalled, Start, StatusReply, Suspend, Terminate
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder
from spurproc.proto.step_state import StepState

__all__ = ["Step"]

_LEFT_WITHIN_S = 1.0
_NOBODY_LEFT = (StepState.EPILOG, StepState.COMPLETED, StepState.LEAVING)


class Step:
    """A step that was launched, by whomever. A value: it holds no descriptor, and whatever becomes of it the step goes on.

    It means one launch: once that was removed, everything raises AlreadyGone, whatever has its id by then. Each method connects
    to the step's supervisor when it is called, and can be called from any thread. All but `wait` and its like, and `terminate`
    where nobody supervises the step, return within seconds.
    """

    __slots__ = ("_place",)

    def __init__(self, place: StepPlace) -> None:
        """For this package; others use `launch`, `adopt` or `open`."""
        self._place = place

    @classmethod
    def open(cls, state_dir: str | os.PathLike[str], runtime_id: RuntimeId) -> Self:
        """A step that exists. Raises AlreadyGone where there is none, RecordInvalid or RecordTooNew where it cannot be read."""
        if not isinstance(runtime_id, RuntimeId):
            raise InvalidArgument(f"runtime_id: {runtime_id!r} is no RuntimeId")
        with StateFolder.open(state_dir) as state:
            return cls(StepPlace.find(state, runtime_id))

    @property
    def runtime_id(self) -> RuntimeId:
        """Which step it is."""
        return self._place.runtime_id

    @property
    def state_dir(self) -> str:
        """The state folder that it was launched into; absolute."""
        return self._place.state_dir

    # How it stands.

    def status(self) -> StepStatus:
        """Where it stands: as its supervisor says, else as its records do."""
        with self._place.opened() as opened:
            return status_of(opened)

    def wait(self, timeout_s: float | None = None, *, completed: bool = False) -> ExitInfo:
        """How it ended, once that is recorded. `completed`: once nothing is owed any more, its tree empty, its epilog run.

        Nobody polls: its supervisor tells, or a host when there is no supervisor any more; one is started where none is left.
        Raises WaitTimeout.
        """
        return wait_for_end(self._place, timeout_s, completed=completed)

    async def wait_async(self, timeout_s: float | None = None, *, completed: bool = False) -> ExitInfo:
        """As `wait`, on the running asyncio loop: no thread, no polling. Cancelling leaks nothing."""
        return await wait_for_end_async(self._place, timeout_s, completed=completed)

    def events(self, *, follow: bool = False) -> Iterator[JournalEvent]:
        """What has happened to it, in order, from its journal. `follow`: also what comes, until the step is over; that blocks."""
        return journal_events(self._place, follow=follow)

    def logs(self, *, stream: Stream = "stdout", follow: bool = False) -> Iterator[bytes]:
        """What it has written to that stream so far, in pieces. `follow`: also what comes, until the step is over; that blocks.

        Read from the file that the plan names, which the job itself writes and can do anything to. Raises, before or between
        pieces: InvalidArgument where the plan names no file; AlreadyGone where the job has removed or replaced it; NotPermitted
        where it stands behind a link or is no plain file of the job's user (a FIFO is never opened, a link never followed); and
        Busy where the job holds a lease on it. One that was cut short is read again from its beginning.
        """
        return read_output(self._place, stream, follow=follow)

    # What is done to it.

    def start(self) -> None:
        """Let a step that stands ready run. Raises Busy in any other state, AlreadyGone where no supervisor answers."""
        request = Start(runtime_id=self.runtime_id)
        with self._place.opened() as opened:
            # Its launcher may have been killed before it did so; what runs must not be launched again after a power cut.
            opened.step.folder.sync_above()
            try:
                reply = _asked(opened, request)
            except Gone:
                raise AlreadyGone(errno.ESRCH, f"cannot start step {self.runtime_id}: no supervisor answers") from None
        if isinstance(reply, Refused):
            raise refusal(request, reply)

    def signal(self, number: int) -> StepAct:
        """One signal to its whole tree, as `signal_tree`: by its supervisor, or from here where none answers.

        Nobody left to take it is success. Raises Busy before the step runs, and where its supervisor ends while it is asked, for
        then nobody knows whether it was sent.
        """
        request = Signal(runtime_id=self.runtime_id, signal=check_signal(number))
        with self._place.opened() as opened:
            try:
                connection = StepConnection.open(opened)
            except Gone:
                return signal_directly(opened, number)
            with connection:
                try:
                    reply = connection.ask(request)
                except Gone:
                    why = "its supervisor ended meanwhile, and whether it was sent is not known"
                    raise Busy(errno.EAGAIN, f"cannot signal step {self.runtime_id}: {why}") from None
        if isinstance(reply, Refused) and reply.state in _NOBODY_LEFT:
            return StepAct(runtime_id=self.runtime_id, supervised=True, state=reply.state, signals=nobody(number))
        if isinstance(reply, Refused):
            raise refusal(request, reply)
        report = dict(reply.report) if isinstance(reply, Signalled) else {}
        signals = SignalReport.from_json(report) if report else nobody(number)
        return StepAct(runtime_id=self.runtime_id, supervised=True, signals=signals)

    def suspend(self) -> StepAct:
        """Freeze it; by SIGSTOP where it has no cgroup. Raises Busy in any state but running."""
        with self._place.opened() as opened:
            try:
                return self._done(opened, Suspend(runtime_id=self.runtime_id))
            except Gone:
                return suspend_directly(opened)

    def resume(self) -> StepAct:
        """Undo `suspend`. Raises Busy where it is not suspended."""
        with self._place.opened() as opened:
            try:
                return self._done(opened, Resume(runtime_id=self.runtime_id))
            except Gone:
                return resume_directly(opened)

    def terminate(self, plan: KillPlan | None = None, *, timeout_s: float | None = None, begun_s_ago: float = 0.0) -> StepAct:
        """Have a kill plan walked, this one or the step's own: `wait(completed=True)` tells when nothing is left.

        May be repeated: a walk that is under way goes on, and gives way only to a plan that comes to SIGKILL earlier, or
        to one that is over earlier where neither comes to it.
        Its supervisor walks it, and this returns at once. Where none answers it is walked from here: that blocks until the tree
        is proven empty, or the plan or `timeout_s` is over; `StepAct.termination` says which. `begun_s_ago`: somebody began that
        so long ago, and it goes on from there.
        """
        request = Terminate(runtime_id=self.runtime_id, plan=plan)
        with self._place.opened() as opened:
            try:
                return self._done(opened, request)
            except Gone:
                return terminate_directly(opened, plan, timeout_s, begun_s_ago)

    def acknowledge(self) -> None:
        """Its end is durable where it has to be known: `gc` may remove it. May be repeated.

        Raises Busy while something is owed: its end, the end of its tree, its epilog.
        """
        with self._place.opened() as opened:
            acknowledge(opened)

    def remove(self) -> None:
        """`acknowledge`, and remove its folder at once, as `gc` does. May be repeated until it raises AlreadyGone.

        Raises Busy while something is owed, or its supervisor has not left yet.
        """
        with self._place.opened() as opened:
            acknowledge(opened, left_within_s=_LEFT_WITHIN_S)
            reason = remove_under_lock(opened.state, opened.step)
            if reason:
                raise Busy(errno.EBUSY, f"cannot remove step {self.runtime_id}: {reason}")

    def kill_hung_supervisor(self, *, unanswered_s: float = 5.0) -> ProcessIdentity:
        """Kill its supervisor, where that lives and does not say Hello within `unanswered_s`; who it was. The step runs on.

        Its host records the end, and has what is owed done by another supervisor. Without a cgroup it costs the proof that the
        tree is gone, see `StepState.HELD`; a time limit is not kept any more. Raises Busy where it answers or nobody is named
        yet, AlreadyGone where it is dead, and WaitTimeout where the kernel does not end it within 30 s.
        """
        with self._place.opened() as opened:
            return kill_hung_supervisor(opened, unanswered_s)

    def attach(self) -> NoReturn:
        """Not in this release. Raises Unsupported: a step's streams are files."""
        raise Unsupported(f"cannot attach to step {self.runtime_id}: its streams are files; see `logs`")

    def _done(self, opened: OpenedStep, request: Suspend | Resume | Terminate) -> StepAct:
        reply = _asked(opened, request)
        if isinstance(reply, Refused) and not (isinstance(request, Terminate) and reply.state in _NOBODY_LEFT):
            raise refusal(request, reply)
        state = reply.state if isinstance(reply, StatusReply | Refused) else None
        return StepAct(runtime_id=self.runtime_id, supervised=True, state=state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __repr__(self) -> str:
        return f"<Step {self.runtime_id} in {self.state_dir!r}>"


def _asked(opened: OpenedStep, request: Request) -> Reply:
    with StepConnection.open(opened) as connection:
        return connection.ask(request)
