"""One supervised step, as its launcher or any other program of the same user sees it."""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from spurproc.client.connection import Gone, StepConnection
from spurproc.client.host_link import HostLink
from spurproc.core.deadline import deadline_after, has_passed, left_s
from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import WaitTimeout
from spurproc.proto.messages import (
    Acknowledge,
    Completed,
    Ended,
    Reply,
    Request,
    Resume,
    Signal,
    Signalled,
    Start,
    Started,
    Status,
    StatusReply,
    Subscribe,
    Suspend,
    TakeOver,
    Terminate,
)
from spurproc.proto.owed import is_over
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder, StepFolder
from spurproc.proto.step_state import StepState

__all__ = ["Step"]


class Step:
    """A step. Owns its folders and, once it was needed, a connection to its supervisor: `close()` it; the step goes on."""

    def __init__(self, state: StateFolder, step: StepFolder, connection: StepConnection | None = None) -> None:
        """Takes all three. See `open`, and `launch`."""
        self._state = state
        self._step = step
        self._connection = connection

    @classmethod
    def open(cls, state_dir: str | os.PathLike[str], runtime_id: RuntimeId) -> Self:
        """A step that exists. Raises AlreadyGone where there is none."""
        state = StateFolder.open(state_dir)
        try:
            return cls(state, state.open_step(runtime_id))
        except BaseException:
            state.close()
            raise

    @property
    def runtime_id(self) -> RuntimeId:
        """Which step it is."""
        return self._step.runtime_id

    # What the supervisor does.

    def start(self) -> None:
        """Let a step that stands ready run. Raises Busy in any other state."""
        self._ask(Start(runtime_id=self.runtime_id))

    def signal(self, number: int) -> dict[str, Any]:
        """One signal to its whole tree; the report, as `SignalReport.to_json` has it."""
        reply = self._ask(Signal(runtime_id=self.runtime_id, signal=int(number)))
        return dict(reply.report) if isinstance(reply, Signalled) else {}

    def suspend(self) -> None:
        """Freeze it; by SIGSTOP where there is no cgroup."""
        self._ask(Suspend(runtime_id=self.runtime_id))

    def resume(self) -> None:
        """Undo `suspend`."""
        self._ask(Resume(runtime_id=self.runtime_id))

    def terminate(self, plan: KillPlan | None = None) -> None:
        """Have the kill plan walked, this one or the step's own. Does not wait for the end."""
        self._ask(Terminate(runtime_id=self.runtime_id, plan=plan))

    def acknowledge(self) -> None:
        """The end is durable where it has to be known: the step owes nobody anything any more."""
        self._ask(Acknowledge(runtime_id=self.runtime_id))

    def status(self) -> StatusReply:
        """Where it stands."""
        reply = self._ask(Status(runtime_id=self.runtime_id))
        assert isinstance(reply, StatusReply)  # noqa: S101 - what Status is answered by
        return reply

    def _ask(self, request: Request) -> Reply:
        return self._connected().ask(request)

    def _connected(self) -> StepConnection:
        if self._connection is None:
            self._connection = StepConnection.open(self._step)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Waiting.

    def confirm(self, timeout_s: float) -> None:
        """Wait until its leader was exec'd, or its end is recorded, but no longer than `timeout_s`."""
        with suppress(WaitTimeout, Gone):
            while not isinstance(self._connected().next_event(timeout_s), Started | Ended | Completed):
                pass

    def wait(self, timeout_s: float | None = None, *, completed: bool = False) -> ExitInfo:
        """How it ended, once that is recorded. `completed`: once nothing is owed any more, its tree empty, its epilog run.

        Nobody polls: its supervisor tells, or the host when there is no supervisor any more. Raises WaitTimeout.
        """
        deadline = deadline_after(timeout_s)
        while True:
            end = self._recorded(completed=completed)
            if end is not None:
                return end
            try:
                end = self._told(deadline, completed=completed)
                if end is not None:
                    return end
            except Gone:
                self._disconnect()
                end = self._recorded(completed=completed)
                if end is not None:
                    return end
                self._have_taken_over(deadline)
            if has_passed(deadline):
                raise WaitTimeout(f"step {self.runtime_id} has not ended after {timeout_s} s")

    def _recorded(self, *, completed: bool) -> ExitInfo | None:
        history = self._step.history()
        return None if completed and not is_over(self._step.launch(), history) else history.end

    def _told(self, deadline: float | None, *, completed: bool) -> ExitInfo | None:
        connection = self._connected()
        if not connection.subscribed:
            reply = connection.ask(Subscribe(runtime_id=self.runtime_id))
            connection.subscribed = True
            if isinstance(reply, StatusReply) and reply.end is not None and not completed:
                return reply.end
            if isinstance(reply, StatusReply) and reply.state in (StepState.COMPLETED, StepState.LEAVING):
                return reply.end
        wanted = (Completed,) if completed else (Ended, Completed)
        event = connection.next_event(left_s(deadline))
        return event.end if isinstance(event, wanted) else None

    def _have_taken_over(self, deadline: float | None) -> None:
        """Nobody supervises it: a host sees to it, and answers when there is something new."""
        link = HostLink.open(self._state)
        try:
            link.send(TakeOver(runtime_id=self.runtime_id))
            link.receive(left_s(deadline))
        finally:
            link.close()

    def close(self) -> None:
        """Let go; the step goes on. May be called twice."""
        self._disconnect()
        self._step.close()
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
