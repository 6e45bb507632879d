"""A step is one launch of one id: requests for it reach it and nobody else, whatever else runs."""

from __future__ import annotations

import os
import pickle
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import spurproc
from spurproc import (
    AlreadyGone,
    Busy,
    InvalidArgument,
    Liveness,
    RuntimeId,
    SpawnPlan,
    SpurprocError,
    Step,
    StepSpec,
    StepState,
    Unsupported,
    launch,
)
from spurproc.client.connection import StepConnection
from spurproc.client.following import Following
from spurproc.proto.messages import Refused, StatusReply, Terminate
from spurproc.proto.step_folder import StateFolder
from tests.steps import KILL_AT_ONCE, WAIT_S, Gate, Steps


def _over(steps: Steps, runtime_id: RuntimeId) -> Step:
    """A step that has ended, is acknowledged, and has no supervisor any more."""
    step = steps.launch(["true"], runtime_id=runtime_id)
    supervisor = steps.descriptor(step).supervisor
    step.wait(WAIT_S, completed=True)
    step.acknowledge()
    steps.await_gone(supervisor)
    return step


@pytest.mark.parametrize(
    "tell", [lambda step: step.wait(WAIT_S), Step.status, lambda step: list(step.events())], ids=["wait", "status", "events"]
)
def test_an_end_that_is_told_is_durable(steps: Steps, monkeypatch: pytest.MonkeyPatch, tell: Callable[[Step], object]) -> None:
    """A client can read it between its supervisor's write and that one's fdatasync: then it syncs it itself."""
    step = _over(steps, RuntimeId(7, 1, 0))
    journal = (steps.path / "runtime" / "7.1.0" / "journal.jsonl").stat().st_ino
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
    tell(step)
    assert synced.count(journal) == 1, "once is enough: an end is never changed"


def test_an_end_that_its_supervisor_tells_needs_no_sync(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells none before it has made it durable. Whether all is over the records say."""
    step = _over(steps, RuntimeId(7, 1, 0))
    end = step.wait(WAIT_S)
    following, synced = Following(step._place), list[int]()
    monkeypatch.setattr(os, "fdatasync", synced.append)
    following._note([StatusReply(state=StepState.COMPLETED, end=end)])
    assert (following.ended, following.completed, following.is_behind) == (end, False, True)
    following.look()
    assert (following.ended, following.completed, synced) == (end, True, [])


def test_a_delayed_request_for_an_attempt_never_touches_the_next_one(steps: Steps, tmp_path: Path) -> None:
    """Signal, suspend, resume, terminate, acknowledge and cleanup for attempt 1, while attempt 2 runs."""
    first = _over(steps, RuntimeId(7, 1, 0))
    gate = Gate(tmp_path / "gate")
    second = steps.launch(gate.script("exit 6"), runtime_id=RuntimeId(7, 2, 0))
    events = steps.events(second)
    first.signal(signal.SIGKILL)
    for request in (first.suspend, first.resume):
        with pytest.raises(Busy, match=r"step 7\.1\.0"):
            request()
    first.terminate(KILL_AT_ONCE)
    first.acknowledge()
    report = spurproc.gc(steps.path)
    assert report.removed == (first.runtime_id,)
    assert [(kept.name, kept.reason) for kept in report.kept] == [("7.2.0", "it is not over")]
    assert (second.status().state, steps.events(second)) == (StepState.RUNNING, events)
    gate.open()
    assert second.wait(WAIT_S).code == 6


def test_a_removed_step_is_not_the_one_that_has_its_name_now(steps: Steps, tmp_path: Path) -> None:
    """The same id, launched again: what was kept of the first launch reaches nobody."""
    runtime_id = RuntimeId(7, 1, 0)
    first = _over(steps, runtime_id)
    spurproc.gc(steps.path)
    gate = Gate(tmp_path / "gate")
    second = steps.launch(gate.script("exit 6"), runtime_id=runtime_id)
    assert first != second
    requests = (
        first.status,
        first.suspend,
        first.resume,
        first.start,
        first.acknowledge,
        first.wait,
        lambda: first.signal(signal.SIGKILL),
        lambda: first.terminate(KILL_AT_ONCE),
        lambda: list(first.events()),
    )
    for request in requests:
        with pytest.raises(AlreadyGone, match=r"step 7\.1\.0 in .*another was launched under its name"):
            request()
    assert second.status().state is StepState.RUNNING
    gate.open()
    assert second.wait(WAIT_S).code == 6


def test_a_supervisor_compares_the_whole_id(steps: Steps, tmp_path: Path) -> None:
    """A request for another attempt on a connection that was let in."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    with StateFolder.open(steps.path) as state, state.open_step(step.runtime_id) as folder:
        connection = StepConnection.connect(folder, folder.launch().capability)
    with connection:
        connection.expect()
        other = RuntimeId(step.runtime_id.job_id, step.runtime_id.run_attempt + 1, step.runtime_id.step_id)
        answer = connection.ask(Terminate(runtime_id=other, plan=KILL_AT_ONCE))
    assert isinstance(answer, Refused)
    assert step.status().state is StepState.RUNNING
    gate.open()
    assert step.wait(WAIT_S).code == 0


def test_the_steps_of_an_attempt_are_independent_in_everything(steps: Steps, tmp_path: Path) -> None:
    """The batch step, the extern step and two numbered ones: each its own supervisor, tree, end, acknowledgement, removal."""
    gates = {name: Gate(tmp_path / name) for name in ("batch", "0", "1")}
    ids = {name: RuntimeId.parse(f"3.1.{name}") for name in (*gates, "extern")}
    run = {name: steps.launch(gates[name].script("exit 4"), runtime_id=ids[name]) for name in gates}
    run["extern"] = steps.launch(None, runtime_id=ids["extern"])
    descriptors = {name: steps.descriptor(step) for name, step in run.items()}
    assert len({descriptor.supervisor for descriptor in descriptors.values()}) == 4
    assert len({descriptor.cgroup and descriptor.cgroup.inode for descriptor in descriptors.values()}) == 4

    run["0"].suspend()
    assert _states(run) == {"batch": "running", "extern": "running", "0": "suspended", "1": "running"}
    run["1"].terminate(KILL_AT_ONCE)
    assert run["1"].wait(WAIT_S, completed=True).signal == signal.SIGKILL
    run["1"].acknowledge()
    steps.await_gone(descriptors["1"].supervisor)
    assert spurproc.gc(steps.path).removed == (ids["1"],)
    run.pop("1")
    assert _states(run) == {"batch": "running", "extern": "running", "0": "suspended"}
    run["0"].resume()
    gates["batch"].open()
    assert run["batch"].wait(WAIT_S).code == 4
    assert _states({name: run[name] for name in ("0", "extern")}) == {"extern": "running", "0": "running"}
    run["extern"].terminate()
    run["extern"].wait(WAIT_S, completed=True)
    assert run["0"].status().liveness.liveness is Liveness.ALIVE
    gates["0"].open()
    assert run["0"].wait(WAIT_S).code == 4


def _states(run: dict[str, Step]) -> dict[str, str]:
    return {name: step.status().state.value for name, step in run.items()}


def test_a_step_is_acknowledged_as_often_as_one_likes_and_not_before_its_end(steps: Steps, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    with pytest.raises(Busy, match=rf"cannot acknowledge step {step.runtime_id}"):
        step.acknowledge()
    supervisor = steps.descriptor(step).supervisor
    gate.open()
    step.wait(WAIT_S, completed=True)
    for _ in range(3):
        step.acknowledge()
    steps.await_gone(supervisor)
    step.acknowledge()
    assert steps.events(step).count("acknowledged") == 1


def test_it_is_acknowledged_under_its_lock_when_no_supervisor_answers(steps: Steps, tmp_path: Path) -> None:
    """One that was killed before its end, and one that has lingered and left."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    lingering = steps.launch(["true"])
    steps.await_gone(steps.descriptor(lingering).supervisor)
    lingering.acknowledge()
    assert steps.events(lingering)[-1] == "acknowledged"
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.host, descriptor.supervisor)
    with pytest.raises(Busy, match="its end is not recorded yet"):
        step.acknowledge()
    gate.open()
    step.wait(WAIT_S, completed=True)
    step.acknowledge()
    step.acknowledge()
    assert steps.events(step).count("acknowledged") == 1


def test_a_step_is_a_value(steps: Steps, tmp_path: Path) -> None:
    """It holds no descriptor, and two of the same launch are equal."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script(), start=False)
    same = Step.open(steps.path, step.runtime_id)
    assert (same == step, len({same, step}), same.state_dir) == (True, 1, str(steps.path))
    assert str(step.runtime_id) in repr(step)
    assert pickle.loads(pickle.dumps(step)) == step
    step.start()
    with pytest.raises(Busy, match=rf"cannot start step {step.runtime_id}"):
        same.start()
    gate.open()
    assert same.wait(WAIT_S).code == 0


def test_a_step_that_was_never_launched_is_named(steps: Steps) -> None:
    steps.launch(["true"])
    with pytest.raises(AlreadyGone, match=rf"cannot find step 9\.1\.0 in '{steps.path}'"):
        Step.open(steps.path, RuntimeId(9, 1, 0))


def test_a_name_that_is_taken_is_left_alone(steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    with pytest.raises(InvalidArgument, match=rf"cannot launch step {step.runtime_id}: it exists"):
        steps.launch(["true"], runtime_id=step.runtime_id)
    assert step.status().state is StepState.READY


def test_a_spec_that_cannot_mean_anything_is_refused_before_anything_is_made(steps: Steps) -> None:
    """The field is named."""
    wrong: dict[str, Any] = {
        "time_limit_s": -1,
        "kill_plan": "soon",
        "prolog": ["true"],
        "containment": "cgroup please",
        "cgroup_limits": 5,
    }
    for name, value in wrong.items():
        with pytest.raises(InvalidArgument, match=name):
            steps.launch(["true"], **{name: value})
    with pytest.raises(InvalidArgument, match="timeout_s"):
        launch(steps.spec(["true"]), steps.path, timeout_s=float("nan"))
    with pytest.raises(InvalidArgument, match="runtime_id"):
        Step.open(steps.path, "1.1.0")  # type: ignore[arg-type]  # that is the point
    assert not steps.path.exists()


def test_for_want_of_descriptors_the_step_is_named(steps: Steps, tmp_path: Path) -> None:
    """Whatever a method tries first, what it raises is ours."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    requests = (step.status, step.suspend, step.terminate, step.acknowledge, step.wait, lambda: step.signal(0))
    used = len(os.listdir("/proc/self/fd"))
    try:
        for left in range(14):
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + left, hard))
            for request in requests[: 1 if left > 9 else None]:
                with suppress(SpurprocError):
                    request() if request is not step.wait else step.wait(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    step.terminate(KILL_AT_ONCE)
    step.wait(WAIT_S)


def test_what_is_not_in_this_release_is_said_to_be(steps: Steps) -> None:
    """A terminal, several tasks, attaching; a descriptor of the caller."""
    one, plan = RuntimeId(1, 1, 0), SpawnPlan(argv=["true"])
    with pytest.raises(Unsupported, match="terminal"):
        StepSpec(runtime_id=one, plan=plan, pty=True)
    with pytest.raises(Unsupported, match="a step for each task"):
        StepSpec(runtime_id=one, plan=plan, tasks=2)
    with pytest.raises(Unsupported, match="give a path"):
        StepSpec(runtime_id=one, plan=SpawnPlan(argv=["true"], stdout=1))
    with pytest.raises(Unsupported, match=r"attach to step 1\.1\.0"):
        steps.launch(["true"], runtime_id=one).attach()
