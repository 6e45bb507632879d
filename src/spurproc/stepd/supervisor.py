"""The supervisor of one step: events go into the table, and the effects that come out are carried out here, in order."""

from __future__ import annotations

import os
import select
import signal as _signal
from collections import deque
from contextlib import suppress

from spurproc.core.signal_source import SignalSource
from spurproc.errors import SpurprocError
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.messages import (
    EVENTS,
    Acknowledge,
    Hello,
    Refused,
    Reply,
    Request,
    Resume,
    Signal,
    Signalled,
    Start,
    StateChanged,
    StatusReply,
    Subscribe,
    Suspend,
    Terminate,
    Welcome,
)
from spurproc.proto.step_state import StepState
from spurproc.stepd.control import Connection, ControlSocket
from spurproc.stepd.effects import EffectRunner
from spurproc.stepd.folder_watch import FolderWatch
from spurproc.stepd.loop import Loop
from spurproc.stepd.surroundings import Surroundings
from spurproc.stepd.table import Effect, Facts, StepEvent, move

__all__ = ["Supervisor"]

_EVENT_OF: dict[type, StepEvent] = {
    Start: StepEvent.START,
    Suspend: StepEvent.SUSPEND,
    Resume: StepEvent.RESUME,
    Terminate: StepEvent.TERMINATE,
    Acknowledge: StepEvent.ACKNOWLEDGE,
    Signal: StepEvent.SIGNAL,
}

_GIVE_UP = frozenset(
    {
        Effect.BIND,
        Effect.MAKE_CGROUP,
        Effect.DESCRIBE,
        Effect.SAY_READY,
        Effect.SPAWN_LEADER,
        Effect.HAND_OVER,
        Effect.DESCRIBE_LEADER,
        Effect.RECORD_GATE_OPENING,
    }
)
"""On the way to the leader: if one fails, it never runs."""
_MUST = frozenset(
    {
        Effect.INHERIT,
        Effect.THAW,
        Effect.RECORD_HOOK_BEGUN,
        Effect.RECORD_HOOK_COMPLETED,
        Effect.RECORD_EXIT_OBSERVED,
        Effect.RECORD_ACKNOWLEDGED,
    }
)
"""Nothing that comes after it may be done before it: tried again until it works. Whatever is in neither set is best effort."""
_REAPING = frozenset({Effect.REAP_LEADER, Effect.RECORD_HOOK_COMPLETED})
"""After it there may be zombies that had to wait behind the one that was not to be reaped yet."""
_RETRY_FIRST_S, _RETRY_LAST_S = 0.1, 5.0
_SIGNALS = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGCHLD, _signal.SIGIO)


class Supervisor:
    """One step from its forked supervisor's first moment to its last. Single-threaded: `run` returns when it is over."""

    def __init__(self, surroundings: Surroundings, launch: LaunchRecord) -> None:
        self._around = surroundings
        self._loop = Loop()
        self._state = self._told = StepState.NEW
        self._events: deque[StepEvent] = deque()
        self._effects: deque[Effect] = deque()
        self._busy = False
        self._retry_s = _RETRY_FIRST_S
        self._control = ControlSocket(self._loop, launch.runtime_id, launch.capability, self._answer)
        self._run = EffectRunner(surroundings, launch, self._loop, self._control, self._post)
        self._facts = Facts(
            has_leader=launch.program is not None,
            has_prolog=launch.prolog is not None,
            has_epilog=launch.epilog is not None,
            prolog_left=self._run.hooks.prolog_left,
        )
        self._signals = SignalSource(_SIGNALS)
        self._folder_watch = FolderWatch(self._loop, surroundings.step.folder, self._folder_removed)

    @property
    def is_concluded(self) -> bool:
        """Whether its end is recorded."""
        return self._run.records.history.end is not None

    def run(self) -> None:
        """Supervise until the step is completed, and acknowledged or no longer asked for."""
        self._loop.watch(self._signals.fileno(), select.EPOLLIN, self._signalled)
        self._post(StepEvent.SUCCEED if self._run.is_successor else StepEvent.BEGIN)
        self._loop.run()

    def close(self) -> None:
        """Let go of everything but what was given. A supervisor that ends needs no such thing; a rehearsal does."""
        self._control.close()
        self._run.close()
        self._signals.close()
        self._loop.close()

    # Events.

    def _post(self, event: StepEvent) -> None:
        self._events.append(event)
        self._drain()

    def _drain(self) -> None:
        """Events one after the other, and the effects of one before the next: none is taken in the middle of another."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._carry_out():
                self._tell_state()
                if not self._events:
                    break
                answer = move(self._state, self._events.popleft(), self._facts)
                if answer is not None:
                    self._effects.extend(answer.effects)
                    self._enter(answer.state)
        finally:
            self._busy = False

    def _enter(self, state: StepState) -> None:
        if state is not self._state:
            self._state = state
            if state is StepState.HELD and self._folder_watch.gone:
                self._events.append(StepEvent.LINGER_OVER)

    def _tell_state(self) -> None:
        """Once all that a new state means is done: whoever hears of it finds it in the records."""
        if self._state is not self._told:
            self._told = self._state
            self._control.tell(StateChanged(state=self._state))

    def _carry_out(self) -> bool:
        """The effects that wait, in order. False: one has to be done first, and is tried again later."""
        while self._effects:
            effect = self._effects[0]
            try:
                self._run.do(effect)
            except (SpurprocError, OSError) as error:
                if not self._go_on_without(effect, error):
                    return False
            if self._effects:
                self._effects.popleft()
            self._retry_s = _RETRY_FIRST_S
            if effect in _REAPING:
                self._reap_orphans()
        return True

    def _go_on_without(self, effect: Effect, error: SpurprocError | OSError) -> bool:
        """What becomes of the rest when one has failed. False: it waits."""
        if effect in _GIVE_UP and not self._run.is_successor:  # that has no leader to give up, and a tree to empty
            self._run.failure = self._run.failure or error
            self._effects.clear()
            self._events.appendleft(StepEvent.GAVE_UP)
        elif effect is Effect.FREEZE:
            self._run.why_not_frozen = str(error)
            self._events.appendleft(StepEvent.RESUME)
        elif effect in _MUST and not self._folder_watch.gone:
            self._retry_later()
            return False
        return True

    def _retry_later(self) -> None:
        self._loop.at("retry", self._retry_s, self._drain)
        self._retry_s = min(2 * self._retry_s, _RETRY_LAST_S)

    # Signals.

    def _signalled(self, _: int) -> None:
        numbers = self._signals.read()
        if _signal.SIGCHLD in numbers:
            self._reap_orphans()
        if _signal.SIGHUP in numbers:
            with suppress(SpurprocError):
                self._control.bind(self._around.step)
        if _signal.SIGTERM in numbers:
            self._terminate("its supervisor was told to end")
        if _signal.SIGIO in numbers:
            self._folder_watch.look()

    def _folder_removed(self) -> None:
        """Nothing is made again in its place."""
        self._terminate("its folder was removed")

    def _terminate(self, why: str) -> None:
        self._run.why = self._run.why or why
        self._post(StepEvent.TERMINATE)

    def _reap_orphans(self) -> None:
        """Whatever has ended and is no leader or hook: descendants that lost their parents."""
        while (found := self._next_zombie()) is not None:
            if not self._may_reap(found):
                break
            os.waitpid(found, os.WNOHANG)
        self._run.walk.look()
        self._run.hooks.look()

    def _next_zombie(self) -> int | None:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        return None if info is None else info.si_pid

    def _may_reap(self, pid: int) -> bool:
        leader = self._run.leader
        if leader.process is not None and pid == leader.process.pidfd.pid:
            return leader.reapable
        return not self._run.hooks.holds(pid)

    # Requests.

    def _answer(self, connection: Connection, request: Request) -> Reply | None:
        match request:
            case Hello():
                return Welcome(state=self._state)
            case Subscribe():
                connection.hears = EVENTS
            case Signal(signal=number):
                return self._send_signal(number)
        event = _EVENT_OF.get(type(request))
        if event is not None and move(self._state, event, self._facts) is None:
            return Refused(why=f"a step that is {self._state.value} takes no {event.value}", state=self._state)
        if isinstance(request, Terminate) and request.plan is not None:
            self._run.asked_plan = request.plan
        if event is not None:
            self._run.why_not_frozen = ""
            self._post(event)
            if self._run.why_not_frozen:
                return Refused(why=self._run.why_not_frozen, state=self._state)
        return self._status()

    def _send_signal(self, number: int) -> Reply:
        if move(self._state, StepEvent.SIGNAL, self._facts) is None:
            return Refused(why=f"a step that is {self._state.value} takes no signal", state=self._state)
        try:
            report = self._run.tree.signal(number)
        except SpurprocError as error:
            return Refused(why=str(error), state=self._state)
        return Signalled(report={} if report is None else report.to_json())

    def _status(self) -> StatusReply:
        return StatusReply(
            state=self._state,
            end=self._run.records.history.end,
            blocked_at=self._run.leader.blocked_at() if self._state in (StepState.STARTING, StepState.OPENING) else None,
            held_by=self._run.held_by,
        )
