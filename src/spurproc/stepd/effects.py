"""The effects of the table, carried out. What they find out comes back as events."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.durable.private_folder import named_errors
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.termination import KillPlan, Proof
from spurproc.errors import SpawnError, SpurprocError
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.messages import Completed, Ended, Started, StatusReply, Welcome
from spurproc.proto.step_state import StepState
from spurproc.stepd.control import Connection, ControlSocket
from spurproc.stepd.hook_run import HookRun
from spurproc.stepd.leader_start import LeaderStart
from spurproc.stepd.loop import Loop
from spurproc.stepd.lowering import lower
from spurproc.stepd.records import StepRecords
from spurproc.stepd.step_tree import StepTree
from spurproc.stepd.surroundings import Surroundings
from spurproc.stepd.table import Effect, StepEvent
from spurproc.stepd.walk import PlanWalk

__all__ = ["EffectRunner"]

_BUSY_S = 0.01
_REMOVED_WITHIN_S = 2.0
_TO_LAUNCHER = (Started, Ended, Completed)
"""It waits for one of them: nothing else is to wake it."""


class EffectRunner:
    """Carries out the effects of one step. `post` takes the events that come of them.

    `failure` and `why` are what is said of a step that ends without a leader that could tell; `asked_plan` is the kill plan that
    somebody has asked for, and that is not begun yet; `held_by` is what cannot be ended; `why_not_frozen` is the last failure to
    freeze it.
    """

    def __init__(
        self,
        around: Surroundings,
        launch: LaunchRecord,
        loop: Loop,
        control: ControlSocket,
        post: Callable[[StepEvent], None],
    ) -> None:
        self._around = around
        self._launch = launch
        self._loop = loop
        self._control = control
        self._post = post
        self._identity = ProcessIdentity.of(os.getpid())
        self._proof = Proof.NONE_FOUND
        self._launcher: Connection | None = None
        self.records = StepRecords(around.step)
        self.tree = StepTree(self._identity)
        self.leader = LeaderStart(loop, post)
        self.hooks = HookRun(loop, launch, self.records, around.root, post)
        self.walk = PlanWalk(loop, self.tree.whole, self._emptied, self._stuck, self._end_is_recorded)
        self.failure: SpurprocError | OSError | None = None
        self.why = ""
        self._overdue = False
        self.why_not_frozen = ""
        self._told_to_start = False
        self.asked_plan: KillPlan | None = None
        self.held_by: tuple[str, ...] = ()
        self._methods: dict[Effect, Callable[[], object]] = {
            Effect.BIND: lambda: control.bind(around.step),
            Effect.INHERIT: self._inherit,
            Effect.MAKE_CGROUP: lambda: self.tree.make_cgroup(launch, around.root),
            Effect.DESCRIBE: self._describe,
            Effect.SAY_READY: self._say_ready,
            Effect.RECORD_HOOK_BEGUN: self._record_hook_begun,
            Effect.RUN_HOOK: lambda: self.hooks.run(around.step),
            Effect.END_HOOK: self.hooks.kill,
            Effect.RECORD_HOOK_COMPLETED: self._record_hook_completed,
            Effect.SPAWN_LEADER: self._spawn_leader,
            Effect.HAND_OVER: lambda: self.leader.hand_over(around.host_channel),
            Effect.DESCRIBE_LEADER: self._describe_leader,
            Effect.RECORD_GATE_OPENING: self.records.gate_opening,
            Effect.OPEN_GATE: self.leader.open_gate,
            Effect.RECORD_LAUNCHED: self.records.launched,
            Effect.TELL_STARTED: self._tell_started,
            Effect.LOWER: self._lower,
            Effect.FREEZE: self.tree.freeze,
            Effect.THAW: self.tree.thaw,
            Effect.RECORD_TERMINATING: lambda: self.records.terminating(self.why or "it was asked for"),
            Effect.WALK_PLAN: self._walk_plan,
            Effect.ABANDON_LEADER: self.leader.abandon,
            Effect.RECORD_EXIT_OBSERVED: self._record_exit_observed,
            Effect.REAP_LEADER: self._reap_leader,
            Effect.TELL_ENDED: self._tell_ended,
            Effect.TELL_HELD: lambda: control.tell(self._status(StepState.HELD)),
            Effect.RECORD_EMPTIED: self._record_emptied,
            Effect.TELL_COMPLETED: self._tell_completed,
            Effect.RECORD_ACKNOWLEDGED: self.records.acknowledged,
            Effect.LEAVE: self._leave,
        }

    def do(self, effect: Effect) -> None:
        """Carry it out. Raises SpurprocError, and then nothing of it counts as done."""
        verb, _, noun = effect.value.partition(" ")
        with named_errors(verb, noun):
            self._methods[effect]()

    def close(self) -> None:
        """Let go of the leader, the cgroup and the records."""
        if self.leader.process is not None:
            self.leader.process.close()
        if self.tree.cgroup is not None:
            self.tree.cgroup.close()
        self.records.close()

    @property
    def is_successor(self) -> bool:
        """Whether another supervisor began this step."""
        return self._around.connection is None

    # On the way to the leader.

    def _inherit(self) -> None:
        before = self._around.step.descriptor()
        if before is not None:
            self.tree.inherit(before)
            self._say_who(before.cgroup, before.leader, inherited=True)

    def _describe(self) -> None:
        self._say_who(self.tree.cgroup_record(), None)
        self.tree.keep_cgroup()

    def _say_ready(self) -> None:
        self._loop.at("start", self._launch.start_deadline_s, self._start_overdue)
        launcher = self._take_launcher()
        if launcher is not None:
            launcher.send(Welcome(state=StepState.READY))

    def _take_launcher(self) -> Connection | None:
        """Serve the connection that the launcher has made, from the moment on at which there is something to tell."""
        if self._around.connection is None or self._launcher is not None:
            return None
        self._launcher = self._control.take(self._around.connection)
        self._launcher.greeted = True
        self._launcher.hears = _TO_LAUNCHER
        return self._launcher

    def _start_overdue(self) -> None:
        self.why = f"nobody sent start within {self._launch.start_deadline_s:g} s"
        self._overdue = True
        self._post(StepEvent.START_OVERDUE)

    def _start_came(self) -> None:
        """Whoever sent it has made the step's name durable before."""
        self._told_to_start = True
        self._loop.cancel("start")

    def _spawn_leader(self) -> None:
        self._start_came()
        assert self._launch.program is not None  # noqa: S101 - the table spawns where there is one
        process = self.leader.spawn(self._launch.program, self.tree.cgroup)
        self.tree.leader = Leader(identity=process.identity, pidfd=process.pidfd)
        self._limit_time()

    def _describe_leader(self) -> None:
        self._say_who(self.tree.cgroup_record(), self.leader.there.identity)

    def _say_who(self, cgroup: CgroupRecord | None, leader: ProcessIdentity | None, *, inherited: bool = False) -> None:
        host, limits = self._around.host, self.tree.not_enforced
        self.records.describe(self._identity, host, cgroup, leader, inherited=inherited, not_enforced=limits)

    def _tell_started(self) -> None:
        self._start_came()
        leader = self.tree.leader
        self._control.tell(Started(leader=None if leader is None else leader.identity.to_text()))
        self._limit_time()

    def _limit_time(self) -> None:
        """From when it runs; until it does, at a FIFO that nobody reads say, from when it was to."""
        if self._launch.time_limit_s is not None:
            self._loop.at("time limit", self._launch.time_limit_s, self._time_over)

    def _lower(self) -> None:
        if not self._around.is_rehearsal:
            lower()

    def _time_over(self) -> None:
        self.why = f"its time limit of {self._launch.time_limit_s:g} s is over"
        self._post(StepEvent.TERMINATE)

    # Hooks.

    def _record_hook_begun(self) -> None:
        self._start_came()
        self.hooks.record_begun()

    def _record_hook_completed(self) -> None:
        before_the_end = self.records.history.end is None
        end = self.hooks.record_completed()
        if before_the_end and not (end.succeeded and end.reason is None):
            how = f"{end}: {end.reason}" if end.kind is ExitKind.SIGNALED and end.reason else str(end)
            self.why = f"its prolog did not succeed: {how}"

    # The end.

    def _walk_plan(self) -> None:
        self.held_by = ()
        plan, self.asked_plan = self.asked_plan or self._launch.kill_plan, None
        if self.records.history.emptied is None:
            self.walk.begin(plan)
        else:
            self._emptied(self.records.history.emptied.proof)

    def _end_is_recorded(self) -> bool:
        return self.records.history.end is not None

    def _emptied(self, proof: Proof) -> None:
        self._proof = proof
        self.held_by = ()
        self._post(StepEvent.EMPTY)

    def _stuck(self, survivors: tuple[str, ...]) -> None:
        self.held_by = survivors or ("it cannot be proven that nothing of it is left",)
        self._post(StepEvent.UNENDABLE)

    def _record_exit_observed(self) -> None:
        if self.records.history.end is None:
            if not self._told_to_start:  # then perhaps nobody has made the step's name durable
                self._around.step.folder.sync_above()
            self.records.exit_observed(self._end())

    def _end(self) -> ExitInfo:
        end = self.leader.end()
        if end is None:
            return self._end_without_leader()
        if end.kind is ExitKind.NOT_STARTED:
            ended = None if end.errno else "it was ended before its exec"
            return replace(end, reason=str(self.failure or self.why) or end.reason or ended)
        return replace(end, oom_kills=self.tree.oom_kills(), trusted=not self._launch.job_may_forge)

    def _end_without_leader(self) -> ExitInfo:
        failure = self.failure
        if isinstance(failure, SpawnError):
            return ExitInfo.not_started(failure.stage, failure.errno or 0, interpreter=failure.interpreter, reason=str(failure))
        told = (
            "it has no leader, and was told to end"
            if self._launch.program is None
            else "it was told to end before it had a leader"
        )
        reason = str(failure or self.why or told)
        stage = SpawnStage.GATE if self._overdue else SpawnStage.NONE  # as where its launcher and its supervisor were killed
        return ExitInfo.not_started(stage.name, getattr(failure, "errno", 0) or 0, reason=reason)

    def _reap_leader(self) -> None:
        self.leader.reap()  # then all that waited behind it is reaped, and the walk looks

    def _tell_ended(self) -> None:
        self._loop.cancel("time limit")
        self._take_launcher()  # of a step that never got ready
        self._control.tell(Ended(end=self._recorded_end()))

    def _recorded_end(self) -> ExitInfo:
        return self.records.history.end or ExitInfo.unknown("it is not recorded yet")

    def _status(self, state: StepState) -> StatusReply:
        return StatusReply(state=state, end=self.records.history.end, held_by=self.held_by)

    def _record_emptied(self) -> None:
        if self.records.history.emptied is None:
            with suppress(SpurprocError):  # can be asked again
                self.records.emptied(self._proof, self.tree.usage())
        self._remove_cgroup()

    def _remove_cgroup(self) -> None:
        if not self.tree.remove_cgroup():
            self._loop.at("cgroup", _BUSY_S, self._remove_cgroup)

    def _leave(self) -> None:
        self.tree.remove_cgroup(_REMOVED_WITHIN_S)
        self._loop.stop()

    def _tell_completed(self) -> None:
        self._control.tell(Completed(end=self._recorded_end()))
        self._loop.at("linger", self._launch.linger_s, lambda: self._post(StepEvent.LINGER_OVER))
