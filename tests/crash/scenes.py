"""What is done with a step, from its launch to its acknowledgement: together they take every move of the table that has effects.

A leader, and each hook, leaves a mark when it is exec'd and another when it was let go: what really happened can be compared with
what is said of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from spurproc import KillPlan, SpawnPlan
from spurproc.client.collection import gc
from spurproc.client.connection import StepConnection
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.durable.lock import FolderLock
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.launch_record import Hook, LaunchRecord
from spurproc.proto.messages import StateChanged, StatusReply, Subscribe
from spurproc.proto.runtime_id import EXTERN_STEP, RuntimeId
from spurproc.proto.step_folder import StateFolder
from spurproc.proto.step_state import StepState

WITHIN_S = 30.0
KILL = KillPlan(steps=((9, None),))
ASK_ONLY = KillPlan(steps=((15, 0.02),))
CODE = 41
_LEADER = "echo exec >> {0}/marks; echo > {0}/up; read x < {0}/go; echo released >> {0}/marks; exit 41"
_DEAF = "trap '' TERM; " + _LEADER
_WITH_CHILD = "trap '' TERM; (read x < {0}/held) & " + _LEADER
_HOOK = "echo {1} >> {0}/marks; exit {2}"
_WAITING_HOOK = "echo {1} >> {0}/marks; read x < {0}/go; exit 0"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one run of a scene takes place."""

    state: Path
    folder: Path
    job: int

    def until_up(self) -> None:
        """Wait until the leader has left its mark."""
        with open(self.folder / "up", encoding="ascii") as pipe:
            pipe.readline()

    def let_go(self, name: str = "go") -> None:
        """Whoever reads there, now or later, reads on. The test holds the pipe open."""
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, b"\n" * 16)
        os.close(fd)

    def shell(self, script: str, *more: object) -> list[str]:
        """The arguments for `script`, told where it is."""
        return ["/bin/sh", "-c", script.format(self.folder, *more)]

    def hook(self, name: str, code: int = 0, script: str = _HOOK) -> Hook:
        """One that leaves its name as a mark."""
        return Hook(argv=tuple(self.shell(script, name, code)))


Play = Callable[[Stage, Step], None]


def _to_its_end(stage: Stage, step: Step) -> None:
    stage.let_go()
    step.wait(WITHIN_S)


def _until_state(step: Step, state: StepState) -> None:
    """Until its supervisor says that it stands there; HELD: that something is held, whatever its state."""
    with step._place.opened() as opened, StepConnection.open(opened) as connection:
        told = connection.ask(Subscribe(runtime_id=step.runtime_id))
        while not (isinstance(told, StateChanged | StatusReply) and _stands(told, state)):
            told = connection.next_message(WITHIN_S)


def _stands(told: StateChanged | StatusReply, state: StepState) -> bool:
    return told.state is state or (state is StepState.HELD and isinstance(told, StatusReply) and bool(told.held_by))


class _WithoutLinger(StepSpec):
    """Its supervisor leaves as soon as it is completed."""

    def record(self) -> LaunchRecord:
        return msgspec.structs.replace(super().record(), linger_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`play` is what the launcher does after the launch; the rest of the fields make the spec.

    `struck` names a place at which the run itself, by plan, is struck by `blow`: a scene of what comes after that. `then`: the
    supervisor is killed at that place, later.
    `ends_by_force`: the resolver has to end it, since it would not by itself. `killed`: somebody in it kills the leader.
    """

    play: Play = _to_its_end
    script: str = _LEADER
    start: bool = True
    leader: bool = True
    missing: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    prolog: tuple[int, str] | None = None
    epilog: tuple[int, str] | None = None
    struck: str = ""
    within: str = ""
    blow: str = ""
    then: str = ""
    acknowledged: bool = True
    collected: bool = False
    lingers: bool = True
    lets_go_after: str = ""
    """The leader is let go when that act of a host is over, not by the launcher."""
    outcome: str = "to its end"
    ends_by_force: bool = False
    killed: bool = False

    def spec_for(self, stage: Stage) -> StepSpec:
        """The step to launch."""
        more = dict(self.spec)
        for name in ("prolog", "epilog"):
            hook = getattr(self, name)
            if hook is not None:
                more[name] = stage.hook(name, *hook)
        leader = self._plan_for(stage) if self.leader else None
        kind = StepSpec if self.lingers else _WithoutLinger
        return kind(runtime_id=self.id_of(stage), plan=leader, kill_plan=more.pop("kill_plan", KILL), **more)

    def _plan_for(self, stage: Stage) -> SpawnPlan:
        """`missing` names what cannot be had: the program, its folder, or a reader of its output."""
        nowhere = f"{stage.folder}/missing"
        return SpawnPlan(
            argv=[nowhere] if self.missing == "program" else stage.shell(self.script),
            cwd=nowhere if self.missing == "folder" else None,
            stdout=f"{stage.folder}/nobody" if self.missing == "reader" else None,
        )

    def id_of(self, stage: Stage) -> RuntimeId:
        """Of the step of `stage`."""
        return RuntimeId(stage.job, 1, 0 if self.leader else EXTERN_STEP)

    def run(self, stage: Stage) -> str:
        """All of it, in the launcher's process."""
        try:
            step = launch(self.spec_for(stage), stage.state, start=self.start)
        except SpurprocError as error:
            return f"not launched: {error}"
        self.play(stage, step)
        step.wait(WITHIN_S, completed=True)
        if self.acknowledged:
            step.acknowledge()
        if self.collected:
            collect(stage.state, step.runtime_id)
        return "to its end"


def until_left(state: Path, runtime_id: RuntimeId) -> None:
    """Wait until its supervisor has let go of its lock, if the step is there."""
    with StateFolder.open(state) as opened, suppress(AlreadyGone), opened.open_step(runtime_id) as step:
        lock = FolderLock.take_within(step.folder, WITHIN_S)
        assert lock is not None
        lock.close()


def collect(state: Path, runtime_id: RuntimeId) -> list[str]:
    """Once its supervisor has left, what nobody needs is removed. What stays, and is not in the making."""
    until_left(state, runtime_id)
    report = gc(state)
    return [f"{kept.name}: {kept.reason}" for kept in report.kept if kept.reason != "its launch may be beginning"]


def _terminated(_: Stage, step: Step) -> None:
    step.terminate()


def _terminated_when_up(stage: Stage, step: Step) -> None:
    stage.until_up()
    step.terminate()


def _terminated_twice(stage: Stage, step: Step) -> None:
    stage.until_up()
    step.terminate()
    _until_state(step, StepState.STOPPING)
    step.terminate()
    stage.let_go()


def _held_while_stopping(stage: Stage, step: Step) -> None:
    stage.until_up()
    step.terminate()
    _until_state(step, StepState.HELD)
    stage.let_go()


def _held(stage: Stage, step: Step) -> None:
    stage.let_go()
    _until_state(step, StepState.HELD)
    stage.let_go("held")


def _held_and_killed(stage: Stage, step: Step) -> None:
    stage.let_go()
    _until_state(step, StepState.EMPTYING)
    step.terminate(ASK_ONLY)
    _until_state(step, StepState.HELD)
    step.terminate(KILL)


def _suspended(stage: Stage, step: Step) -> None:
    step.suspend()
    step.resume()
    stage.let_go()


def _suspended_and_killed(_: Stage, step: Step) -> None:
    step.suspend()
    step.signal(9)


def _suspended_and_terminated(_: Stage, step: Step) -> None:
    step.suspend()
    step.terminate()


def _started_and_terminated(_: Stage, step: Step) -> None:
    step.start()
    step.terminate()


def _terminated_while_opening(_: Stage, step: Step) -> None:
    step.start()
    _until_state(step, StepState.OPENING)
    step.terminate()


def _terminated_when_completed(stage: Stage, step: Step) -> None:
    stage.let_go()
    step.wait(WITHIN_S, completed=True)
    step.terminate()


def _executed_while_stopping(stage: Stage, step: Step) -> None:
    step.start()
    _until_state(step, StepState.OPENING)
    step.terminate(KillPlan(steps=((signal.SIGURG, 5.0),)))
    stage.let_go()


def _acknowledged_late(stage: Stage, step: Step) -> None:
    stage.let_go()
    step.wait(WITHIN_S, completed=True)
    until_left(stage.state, step.runtime_id)


def _nothing(_: Stage, __: Step) -> None:
    pass


SCENES: dict[str, Scene] = {
    "plain": Scene(),
    "hooks": Scene(prolog=(0, _HOOK), epilog=(0, _HOOK)),
    "epilog": Scene(epilog=(0, _HOOK)),
    "hooks fail": Scene(prolog=(1, _HOOK), epilog=(1, _HOOK), play=_nothing),
    "prolog ended": Scene(prolog=(0, _WAITING_HOOK), start=False, play=_started_and_terminated),
    "extern": Scene(leader=False, play=_terminated, ends_by_force=True),
    "extern with prolog": Scene(leader=False, play=_terminated, prolog=(0, _HOOK), ends_by_force=True),
    "terminated": Scene(play=_terminated_when_up, killed=True),
    "terminated twice": Scene(script=_DEAF, play=_terminated_twice, spec={"kill_plan": KillPlan(steps=((15, 5.0),))}),
    "held while stopping": Scene(script=_DEAF, play=_held_while_stopping, spec={"kill_plan": ASK_ONLY}),
    "held": Scene(script=_WITH_CHILD, play=_held, spec={"kill_plan": ASK_ONLY}),
    "held and killed": Scene(
        script=_WITH_CHILD, play=_held_and_killed, spec={"kill_plan": KillPlan(steps=((15, WITHIN_S),))}, killed=True
    ),
    "suspended": Scene(play=_suspended),
    "suspended and killed": Scene(play=_suspended_and_killed, killed=True, ends_by_force=True),
    "suspended and terminated": Scene(play=_suspended_and_terminated, killed=True, ends_by_force=True),
    "never told to start": Scene(start=False, play=_nothing, spec={"start_deadline_s": 0.05}),
    "ended before its start": Scene(start=False, play=_terminated),
    "blocked": Scene(missing="reader", start=False, play=_started_and_terminated, ends_by_force=True, killed=True),
    "no folder": Scene(missing="folder", play=_nothing),
    "no program": Scene(missing="program", play=_nothing),
    "ended while opening": Scene(
        start=False,
        play=_terminated_while_opening,
        struck="open the gate",
        blow="stop leader",
        ends_by_force=True,
        killed=True,
    ),
    "executed while stopping": Scene(
        start=False,
        play=_executed_while_stopping,
        struck="open the gate",
        blow="stop leader",
        ends_by_force=True,
        killed=True,
    ),
    "not sent": Scene(struck="client.host_link:HostLink.send", blow="errno 5", outcome="not launched"),
    "not written": Scene(struck="_write_all:write", within="write the descriptor", blow="errno 28", outcome="not launched"),
    "not recorded": Scene(struck="_write_whole:write", within="record gate_opening", blow="short", play=_nothing),
    "no leader": Scene(struck="spawn the leader", blow="nofile", play=_nothing),
    "not handed over": Scene(struck="hand the leader over to the host", blow="errno 105", play=_nothing),
    "not described": Scene(
        struck="replace_file:rename", within="write the leader into the descriptor", blow="errno 5", play=_nothing
    ),
    "not reachable": Scene(struck="bind:rename", within="bind the control socket", blow="errno 5", outcome="not launched"),
    "succeeded": Scene(
        struck="tell that it has started",
        blow="kill supervisor",
        epilog=(0, _HOOK),
        play=_nothing,
        lets_go_after="Witness.await_leader",
    ),
    "taken over": Scene(
        struck="tell that it has started",
        blow="kill host+supervisor",
        epilog=(0, _HOOK),
        play=_nothing,
        lets_go_after="Witness.await_leader",
    ),
    "torn": Scene(
        struck="_write_whole:write",
        within="record gate_opening",
        blow="short",
        then="_cut_tail:ftruncate",
        play=_nothing,
    ),
    "acknowledged late": Scene(play=_acknowledged_late, lingers=False),
    "collected": Scene(collected=True),
    "terminated when completed": Scene(play=_terminated_when_completed, acknowledged=False),
}
