"""`spurproc-inspect exit | wait | signal | tree | show` of a supervised step, named by its folder: the client's own words."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.client.step import Step
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.termination import KillPlan
from spurproc.proto.runtime_id import RuntimeId
from tests.asleep import await_waiting
from tests.fifo import Told
from tests.inspect_program import (
    PROGRAM,
    TIMEOUT_S,
    assert_one_line,
    inspect,
    inspect_here,
    inspect_json,
    recorded,
)
from tests.steps import WAIT_S, Gate, Steps, folder_of

BLOCKED = ["sleep", "1000"]


def leader_of(steps: Steps, step: Step) -> ProcessIdentity:
    leader = steps.descriptor(step).leader
    assert leader is not None
    return leader


def abandon(steps: Steps, step: Step) -> None:
    """Nobody keeps it any more, and it runs on."""
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.host, descriptor.supervisor)


def end_leader(steps: Steps, step: Step) -> None:
    """Once it is gone, by a signal of ours and not of its supervisor."""
    steps.kill(leader_of(steps, step))


def target_of(steps: Steps, step: Step) -> dict[str, Any]:
    return {"kind": "step", "state_dir": str(steps.path), "step": str(step.runtime_id)}


@pytest.mark.parametrize(("script", "code", "exit_code"), [("exit 0", 0, 0), ("exit 3", 3, 1)])
def test_exit_tells_the_recorded_end_and_its_source(steps: Steps, script: str, code: int, exit_code: int) -> None:
    step = steps.launch(["sh", "-c", script])
    step.wait(WAIT_S)
    told = inspect_json("exit", folder_of(step))
    assert told["target"] == target_of(steps, step)
    assert (told["exit_code"], told["state"], told["reason"]) == (exit_code, "ended", None)
    assert (told["exit"]["code"], told["exit"]["source"]) == (code, "waited")
    said = inspect("exit", folder_of(step))
    assert said.code == exit_code
    assert f"exit     exited {code}\n" in said.out
    assert "source   waited" in said.out


def test_exit_of_what_runs_is_not_known_yet(steps: Steps) -> None:
    step = steps.launch(BLOCKED)
    told = inspect_json("exit", folder_of(step))
    assert (told["exit_code"], told["state"], told["exit"]) == (4, "running", None)
    assert told["reason"] == "its state is running, by its supervisor's answer"
    assert "not known yet: its state is running" in inspect("exit", folder_of(step)).out


def test_exit_of_what_nobody_keeps_says_who_finds_out_and_wait_does(steps: Steps) -> None:
    """`exit` starts nobody, however long its leader is gone; `wait` starts a host, which records the end."""
    step = steps.launch(BLOCKED)
    abandon(steps, step)
    end_leader(steps, step)
    told = inspect_json("exit", folder_of(step))
    assert (told["exit_code"], told["state"]) == (4, "running")
    assert told["reason"].endswith("no supervisor answers; `wait` has a host see to it")
    assert steps.history(step).end is None
    waited = inspect_json("wait", folder_of(step), "--timeout", "60")
    assert waited["exit_code"] == 1
    assert waited["exit"] == inspect_json("exit", folder_of(step))["exit"]
    end = steps.history(step).end
    assert end is not None
    assert waited["exit"]["kind"] == end.kind.value


def test_wait_ends_with_the_step_and_not_before(steps: Steps, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("exit 7"))
    early = inspect_json("wait", folder_of(step), "--timeout", "0")
    assert (early["exit_code"], early["state"], early["exit"]) == (4, "timeout", None)
    assert early["reason"] == f"step {step.runtime_id} has not ended after 0.0 s"
    with subprocess.Popen([PROGRAM, "wait", folder_of(step)], stdout=subprocess.PIPE, text=True) as waiting:
        await_waiting(waiting.pid)
        gate.open()
        out, _ = waiting.communicate(timeout=TIMEOUT_S)
    assert waiting.returncode == 1
    assert "exit     exited 7\n" in out
    assert inspect("wait", folder_of(steps.launch(["true"])), "--timeout", "inf").code == 0


def test_signal_reaches_the_whole_step_through_its_supervisor(steps: Steps) -> None:
    step = steps.launch(["sh", "-c", "sleep 1000 & sleep 1000 & wait"], kill_plan=Steps.patient)
    asked = inspect_json("signal", folder_of(step), "0")
    assert (asked["exit_code"], asked["scope"], asked["supervised"]) == (0, "tree", True)
    assert asked["target"] == target_of(steps, step)
    said = inspect("signal", folder_of(step), "KILL")
    assert said.code == 0
    assert "sent by  its supervisor\n" in said.out
    assert "signal   SIGKILL (9), to the whole tree\n" in said.out
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


def test_a_job_may_signal_its_own_step_and_the_program_gets_it_too(steps: Steps, tmp_path: Path) -> None:
    """Not refused, as it is where the program itself sends: whoever asks a supervisor is one of many to it."""
    folder, out = steps.path / "runtime" / "7.1.0", tmp_path / "out"
    script = f"trap '' USR1; {PROGRAM} signal {folder} USR1; echo $?; {PROGRAM} signal {folder} KILL; echo $?"
    step = steps.launch(["sh", "-c", script], runtime_id=RuntimeId(7, 1, 0), stdout=out)
    assert step.wait(WAIT_S).signal == signal.SIGKILL
    *told, code = out.read_text().splitlines()
    assert "reached  2" in told
    assert code == "0"


def test_signal_goes_straight_where_nobody_supervises(steps: Steps) -> None:
    step = steps.launch(BLOCKED)
    abandon(steps, step)
    with leader_of(steps, step).open() as leader:
        told = inspect_json("signal", folder_of(step), "TERM")
        leader.wait(WAIT_S, reap_grace_s=0)
    assert (told["exit_code"], told["supervised"], told["report"]["signalled"]) == (0, False, 1)


def test_signal_to_the_leader_alone(steps: Steps, told: Callable[[str], Told]) -> None:
    """The other member lives on until the kill plan comes for it, and that waits."""
    say = told("say")
    plan = KillPlan(steps=((signal.SIGWINCH, WAIT_S), (9, None)))
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; sleep 1000 & echo up >&3; wait"], kill_plan=plan)
    assert say.line() == "up"
    document = inspect_json("signal", folder_of(step), "KILL", "--leader")
    assert (document["exit_code"], document["scope"]) == (0, "leader")
    assert (document["report"]["signalled"], document["report"]["route"]) == (1, ["PIDFD"])
    assert step.wait(WAIT_S).signal == signal.SIGKILL
    assert step.status().liveness.liveness is Liveness.ALIVE


def test_signal_to_a_step_of_which_nobody_is_left(steps: Steps) -> None:
    step = steps.launch(["true"])
    step.wait(WAIT_S, completed=True)
    told = inspect_json("signal", folder_of(step), "TERM")
    assert (told["exit_code"], told["report"]["signalled"]) == (1, 0)


def test_signal_before_the_step_runs_is_refused(capfd: pytest.CaptureFixture[str], steps: Steps) -> None:
    step = steps.launch(["true"], start=False)
    for option in ([], ["--leader"]):
        said = inspect_here(capfd, "signal", str(folder_of(step)), "TERM", *option)
        assert said.code == 1
        assert_one_line(said, f"step {step.runtime_id}")


def test_tree_and_show_have_the_members_of_the_step(steps: Steps, tmp_path: Path) -> None:
    told = tmp_path / "told"
    gate = Gate(told)
    step = steps.launch(["sh", "-c", f"(sleep 1000 & read x <{told}; exec sleep 1000) & wait"])
    gate.open()
    leader = leader_of(steps, step)
    document = inspect_json("tree", folder_of(step))
    assert (document["exit_code"], document["liveness"]) == (0, "alive")
    assert document["target"] == target_of(steps, step)
    first, *others = document["processes"]
    assert (first["pid"], first["name"]) == (leader.pid, "sh")
    assert "leader" in first["member_by"]
    assert len(others) >= 2
    shown = inspect_json("show", folder_of(step), "--members", "1")["members"]
    assert (shown["count"], len(shown["listed"]), shown["error"]) == (document["count"], 1, None)
    text = inspect("show", folder_of(step), "--members", "1").out
    assert f"members seen: {document['count']}, of which 1 are listed\n" in text


@pytest.mark.needs_root
def test_a_step_without_a_cgroup_is_what_its_supervisor_holds(bare_steps: Steps, told: Callable[[str], Told]) -> None:
    """Who has left the leader's session, and has no parent left, is found below the supervisor; and not once that is dead."""
    say = told("say")
    step = bare_steps.launch(["sh", "-c", f"exec 3>{say.path}; (setsid sleep 1000 &); echo up >&3; exec sleep 1000"])
    assert say.line() == "up"
    descriptor = bare_steps.descriptor(step)
    assert descriptor.cgroup is None
    document = inspect_json("tree", folder_of(step))
    assert document["containment"]["kind"] == "descendants"
    assert "all that descends from the supervisor" in document["containment"]["provenance"]
    assert descriptor.leader is not None
    assert descriptor.leader.pid in {process["pid"] for process in document["processes"]}
    assert [process["escaped"] for process in document["processes"]] == [None, "re-parented"]
    everybody = [ProcessIdentity.of(process["pid"]) for process in document["processes"]]
    bare_steps.kill(descriptor.host, descriptor.supervisor)
    for command in ("tree", "show"):
        document = inspect_json(command, folder_of(step))
        assert document["containment"]["provenance"].startswith("its supervisor has ended, which held it together")
        assert "recorder" not in inspect(command, folder_of(step)).out
    bare_steps.kill(*everybody)
    say.wait_end()
    shutil.rmtree(bare_steps.folder(step))  # or its next supervisor holds it: nobody can prove that it is empty


def test_tree_of_a_step_that_is_over_is_empty(steps: Steps) -> None:
    step = steps.launch(["true"])
    step.wait(WAIT_S, completed=True)
    document = inspect_json("tree", folder_of(step))
    assert (document["exit_code"], document["liveness"], document["processes"]) == (1, "gone", [])
    assert inspect_json("show", folder_of(step))["members"]["count"] == 0


@pytest.mark.parametrize("command", ["exit", "show", "signal", "tree", "wait", "watch"])
def test_a_step_that_was_never_launched_is_named(capfd: pytest.CaptureFixture[str], steps: Steps, command: str) -> None:
    steps.launch(["true"])
    said = inspect_here(capfd, command, f"{steps.path}/runtime/9.9.9", *(["TERM"] if command == "signal" else []))
    assert said.code == 1
    assert_one_line(said, "cannot find step 9.9.9", str(steps.path), "never launched")


def test_a_recorded_run_may_have_the_name_of_a_step(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    with recorded(tmp_path / "runtime" / "7.1.0", "true") as run:
        run.wait(WAIT_S)
        told = inspect_json("exit", tmp_path / "runtime" / "7.1.0")
    assert (told["exit_code"], told["target"]["kind"]) == (0, "run")
