"""A step that nobody supervises is reached all the same: by its recorded cgroup and leader, and the answer says so."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spurproc import (
    AlreadyGone,
    Busy,
    Containment,
    ExitKind,
    InvalidArgument,
    KillPlan,
    Liveness,
    ProcessTree,
    Proof,
    Route,
    RuntimeId,
    Step,
    StepAct,
    StepState,
    SystemCallError,
    Unsupported,
)
from spurproc.client import connection, direct
from spurproc.client.step_processes import held_tree
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import DESCRIPTOR_NAME, Descriptor
from tests.fifo import Told
from tests.payload import Payload
from tests.steps import WAIT_S, Gate, Steps, folder_of

_TRAP = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done"
_PATIENT = KillPlan(steps=((signal.SIGTERM, WAIT_S), (signal.SIGKILL, None)))


def _first_line(step: Step) -> bytes:
    pieces = step.logs(follow=True)
    return next(pieces)


def _unsupervised(steps: Steps, tmp_path: Path, script: str = _TRAP, *, host_too: bool = False, **more: Any) -> Step:
    """A running step whose supervisor was killed; its host lives, and is its witness, unless it was killed too."""
    step = steps.launch(["sh", "-c", script], stdout=tmp_path / "out", **more)
    assert _first_line(step) == b"ready\n"
    descriptor = steps.descriptor(step)
    steps.kill(*((descriptor.host,) if host_too else ()), descriptor.supervisor)
    return step


def test_a_signal_reaches_the_whole_tree_and_the_report_says_who_sent_it(steps: Steps, tmp_path: Path) -> None:
    step = _unsupervised(steps, tmp_path)
    act = step.signal(signal.SIGUSR1)
    assert not act.supervised
    assert act.signals is not None
    assert act.signals.signalled >= 1
    assert step.wait(WAIT_S).code == 7


def test_with_a_supervisor_it_is_the_supervisor_who_sends_it(steps: Steps, tmp_path: Path) -> None:
    step = steps.launch(["sh", "-c", _TRAP], stdout=tmp_path / "out")
    assert _first_line(step) == b"ready\n"
    act = step.signal(signal.SIGUSR1)
    assert act.supervised
    assert act.signals is not None
    assert act.signals.signalled >= 1
    assert step.wait(WAIT_S).code == 7


@pytest.mark.needs_cgroup_v2
def test_a_kill_plan_is_walked_from_here_and_proves_that_nothing_is_left(steps: Steps, tmp_path: Path) -> None:
    """With a member that has left the leader's group and session."""
    script = f"setsid sleep 1000 & {_TRAP}"
    step = _unsupervised(steps, tmp_path, script)
    act = step.terminate(_PATIENT)
    assert not act.supervised
    assert act.termination is not None
    assert act.termination.proof is Proof.CGROUP_EMPTY
    assert [report.signal for report in act.termination.steps] == [signal.SIGTERM]
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGTERM


@pytest.mark.needs_cgroup_v2
def test_the_steps_own_kill_plan_is_walked(steps: Steps, tmp_path: Path) -> None:
    plan = KillPlan(steps=((signal.SIGUSR1, None),))
    act = _unsupervised(steps, tmp_path, kill_plan=plan).terminate()
    assert act.termination is not None
    assert [report.signal for report in act.termination.steps] == [signal.SIGUSR1]


@pytest.mark.needs_cgroup_v2
def test_it_is_frozen_and_thawed_from_here(steps: Steps, tmp_path: Path) -> None:
    step = _unsupervised(steps, tmp_path)
    assert not step.suspend().supervised
    status = step.status()
    assert (status.state, status.supervised) == (StepState.SUSPENDED, False)
    assert not step.resume().supervised
    assert step.status().state is StepState.RUNNING
    step.signal(signal.SIGUSR1)
    assert step.wait(WAIT_S).code == 7


def test_without_a_cgroup_the_leaders_group_is_reached_and_nothing_more_is_claimed(steps: Steps, tmp_path: Path) -> None:
    """Nobody could ever prove that such a step is empty: it is removed with its folder here."""
    step = _unsupervised(steps, tmp_path, host_too=True, containment=Containment.DESCENDANTS)
    leader = step.status().leader
    step.suspend()
    step.resume()
    act = step.terminate()
    assert act.termination is not None
    assert act.termination.containment is Containment.PROCESS_GROUP
    assert not act.termination.empty
    assert leader is not None
    assert leader.liveness() is Liveness.GONE
    shutil.rmtree(steps.path)


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_what_stands_in_an_extern_step_is_reached(steps: Steps, payload: Callable[..., Payload]) -> None:
    """There is no leader: its cgroup is all, and its emptiness is proof."""
    step = steps.launch(None, runtime_id=RuntimeId(1, 1, RuntimeId.EXTERN))
    descriptor = steps.descriptor(step)
    assert descriptor.cgroup is not None
    inside = payload("hold", cgroup=Path(descriptor.cgroup.path))
    inside.wait_ready()
    steps.kill(descriptor.host, descriptor.supervisor)
    assert step.status().liveness.liveness is Liveness.ALIVE
    act = step.terminate()
    assert act.termination is not None
    assert act.termination.proof is Proof.CGROUP_EMPTY
    inside.wait_exit()
    assert step.wait(WAIT_S, completed=True).kind is ExitKind.NOT_STARTED


def test_a_supervisor_that_hangs_is_none(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was let go of in the middle of nowhere: nothing that it was asked is done later. It records the end once it goes on."""
    monkeypatch.setattr(connection, "_HELLO_WITHIN_S", 0.2)
    step = steps.launch(["sh", "-c", _TRAP], stdout=tmp_path / "out")
    assert _first_line(step) == b"ready\n"
    with steps.descriptor(step).supervisor.open() as supervisor:
        supervisor.send_signal(signal.SIGSTOP)
        status = step.status()
        assert (status.supervised, status.state, status.liveness.liveness) == (False, StepState.RUNNING, Liveness.ALIVE)
        assert not step.signal(signal.SIGUSR1).supervised
        supervisor.send_signal(signal.SIGCONT)
    assert step.wait(WAIT_S).code == 7


def test_nobody_left_is_success_and_nothing_is_sent(steps: Steps) -> None:
    step = steps.launch(["true"])
    supervisor = steps.descriptor(step).supervisor
    step.wait(WAIT_S, completed=True)
    supervised = step.signal(signal.SIGTERM)
    assert supervised.signals is not None
    assert supervised.signals.route is Route.NOBODY
    step.acknowledge()
    steps.await_gone(supervisor)
    act = step.signal(signal.SIGKILL)
    assert not act.supervised
    assert act.signals is not None
    assert act.signals.route is Route.NOBODY
    assert step.terminate().termination is None
    with pytest.raises(Busy, match=f"suspend step {step.runtime_id}: it has ended"):
        step.suspend()


@pytest.fixture
def stranger(steps: Steps, tmp_path: Path) -> Iterator[Step]:
    """A step of the next attempt, which runs, and must come to no harm."""
    gate = Gate(tmp_path / "stranger")
    step = steps.launch(gate.script("exit 5"))
    yield step
    assert step.status().liveness.liveness is Liveness.ALIVE
    gate.open()
    assert step.wait(WAIT_S).code == 5


def test_a_descriptor_that_leads_to_others_reaches_nobody(steps: Steps, tmp_path: Path, stranger: Step) -> None:
    """The number of a process and the path of a cgroup that are somebody else's by now."""
    others = Steps(tmp_path / "others")
    step = others.launch(["true"])
    others.end_all()
    theirs = steps.descriptor(stranger)
    assert theirs.leader is not None
    ours = others.descriptor(step)
    forged = theirs.leader.to_json() | {"start_ticks": theirs.leader.start_ticks + 1, "pidfs_inode": None}
    leader = type(theirs.leader).from_json(forged)
    cgroup = theirs.cgroup and type(theirs.cgroup).from_json(theirs.cgroup.to_json() | {"inode": theirs.cgroup.inode + 10**6})
    content = msgspec.structs.replace(ours, cgroup=cgroup, leader_text=leader.to_text())
    journal = folder_of(step) / "journal.jsonl"
    begun = [line for line in journal.read_bytes().splitlines(keepends=True) if b"gate_opening" in line or b"launched" in line]
    journal.write_bytes(b"".join(begun))
    (folder_of(step) / DESCRIPTOR_NAME).write_bytes(encode(content))
    acts: tuple[Callable[[], StepAct], ...] = (lambda: step.signal(signal.SIGKILL), step.terminate, step.suspend)
    for act in acts:
        try:
            done = act()
        except Unsupported as error:
            assert "another cgroup stands at its path" in str(error)  # noqa: PT017 - one of two right answers
            continue
        assert not done.supervised
        assert done.signals is None or done.signals.route is Route.NOBODY
        assert done.termination is None or done.termination.steps == ()


@pytest.mark.parametrize("change", ["removed", "taken over"])
def test_the_last_look_before_an_act_sees_what_has_changed(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The folder goes away, or another supervisor describes itself, after all was read and before anybody is signalled."""
    step = _unsupervised(steps, tmp_path)
    folder = folder_of(step)
    descriptor = steps.descriptor(step)
    real = held_tree

    @contextmanager
    def meanwhile(found: Descriptor | None) -> Iterator[ProcessTree | None]:
        with real(found) as tree:
            if change == "removed":
                folder.rename(folder.with_name(".old-1.1.0-aa"))
            else:
                content = msgspec.structs.replace(descriptor, supervisor_text=descriptor.host_text)
                (folder / DESCRIPTOR_NAME).write_bytes(encode(content))
            yield tree

    with monkeypatch.context() as patched:
        patched.setattr(direct, "held_tree", meanwhile)
        with pytest.raises(SystemCallError, match=r"removed meanwhile|takes it over just now"):
            step.signal(signal.SIGUSR1)
    if change == "removed":
        folder.with_name(".old-1.1.0-aa").rename(folder)
    else:
        (folder / DESCRIPTOR_NAME).write_bytes(encode(descriptor))
    assert step.status().liveness.liveness is Liveness.ALIVE
    assert step.signal(signal.SIGUSR1).signals is not None
    assert step.wait(WAIT_S).code == 7


def test_a_step_that_nobody_supervises_cannot_be_started(steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.host, descriptor.supervisor)  # or a successor answers
    with pytest.raises(AlreadyGone, match=f"cannot start step {step.runtime_id}: no supervisor answers"):
        step.start()
    assert step.wait(WAIT_S).kind is ExitKind.NOT_STARTED


@pytest.mark.parametrize("number", [-1, 65, True, "TERM"])
def test_what_is_no_signal_is_refused_before_anybody_is_asked(steps: Steps, number: object) -> None:
    step = steps.launch(["true"], start=False)
    with pytest.raises(InvalidArgument):
        step.signal(number)  # type: ignore[arg-type]  # that is the point


@pytest.mark.needs_root
def test_without_a_cgroup_a_supervisor_that_hangs_still_holds_its_tree_together(
    bare_steps: Steps, told: Callable[[str], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descendants are found below it, one that has left the leader's session too."""
    monkeypatch.setattr(connection, "_HELLO_WITHIN_S", 0.2)
    say = told("say")
    wait = "while :; do sleep 0.01; done"
    away = f'trap "echo away >&3; exit" USR1; echo up >&3; {wait}'
    step = bare_steps.launch(["sh", "-c", f"exec 3>{say.path}; setsid sh -c '{away}' & exec sleep 600"])
    assert say.line() == "up"
    with bare_steps.descriptor(step).supervisor.open() as supervisor:
        supervisor.send_signal(signal.SIGSTOP)
        assert step.signal(signal.SIGUSR1).signals is not None
        assert say.line() == "away"
        supervisor.send_signal(signal.SIGCONT)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGUSR1
