"""spurproc-inspect signal: whom it reaches, whom it refuses, and what it says of both."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.tree.members import Containment
from tests.inspect_program import PROGRAM, assert_one_line, inspect, inspect_as, inspect_here, inspect_json, recorded
from tests.payload import Payload
from tests.relatives import NOBODY, Foster
from tests.trees import released

Payloads = Callable[..., Payload]


@pytest.mark.parametrize("name", ["TERM", "sigterm", "15"])
def test_one_process_gets_it(payload: Payloads, name: str) -> None:
    hold = payload("hold")
    hold.wait_ready()
    document = inspect_json("signal", str(hold.pid), name)
    assert hold.reap() == -signal.SIGTERM
    assert document["exit_code"] == 0
    assert document["scope"] == "process"
    report = document["report"]
    assert (report["signal"], report["route"], report["signalled"], report["refused"]) == (15, ["PIDFD"], 1, [])
    assert report["provenance"] == ["the pidfd of the process itself"]
    assert document["target"]["identity"]["strength"] in ("pidfs-inode", "start-ticks")


def test_zero_only_asks(payload: Payloads) -> None:
    hold = payload("hold")
    hold.wait_ready()
    said = inspect("signal", str(hold.pid), "0")
    assert said.code == 0
    assert "signal 0, which only asks, to the process alone" in said.out
    assert f"process   {hold.pid}" in said.out
    assert released(hold) == 0


def test_process_1_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["1", "0"], ["1", "CONT"]):
        said = inspect_here(capfd, "signal", *arguments)
        assert said.code == 1
        assert_one_line(said, "cannot signal process 1")


def test_the_program_itself_is_refused() -> None:
    """The shell's number is the program's after exec."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" signal $$ KILL', str(PROGRAM)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "it is this process" in done.stderr


def test_the_tree_that_holds_the_program_is_refused() -> None:
    """A shell that leads its session asks for all of that to be killed, itself and the program in it: nobody is."""
    script = '"$0" signal --tree $$ KILL; echo $?'
    done = subprocess.run(
        ["sh", "-c", script, str(PROGRAM)], capture_output=True, text=True, check=False, timeout=60, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "the caller is in its group or session" in done.stderr


def test_a_tree_by_a_number_is_its_group_and_session(payload: Payloads) -> None:
    session = payload("session")
    session.wait_ready(3)
    alone = inspect_json("signal", str(session.pid), "0")
    document = inspect_json("signal", "--tree", str(session.pid), "KILL")
    assert session.reap() == -signal.SIGKILL
    assert alone["report"]["signalled"] == 1
    assert document["exit_code"] == 0
    assert document["scope"] == "tree"
    assert (document["report"]["route"], document["report"]["signalled"]) == (["PROCESS_GROUP"], 3)


def test_a_zombie_is_nobody(payload: Payloads) -> None:
    with Foster(payload, "exit", 0) as foster:
        foster.end()
        document = inspect_json("signal", str(foster.pid), "TERM")
        said = inspect("signal", str(foster.pid), "TERM")
        foster.reap()
    assert document["exit_code"] == said.code == 1
    assert (document["report"]["signalled"], document["report"]["route"]) == (0, [])
    assert "0: nobody was there to be signalled" in said.out


@pytest.mark.needs_root
@pytest.mark.parametrize("how", [[], ["--tree"]])
@pytest.mark.parametrize("name", ["0", "TERM"])
def test_who_may_not_is_told_who_refused(payload: Payloads, how: list[str], name: str) -> None:
    hold = payload("session")
    hold.wait_ready(3)
    document = inspect_as(NOBODY, "signal", *how, str(hold.pid), name)
    assert document["exit_code"] == 1
    assert document["report"]["signalled"] == 0
    refused = document["report"]["refused"]
    assert hold.pid in [who["pid"] for who in refused]
    assert len(refused) == (3 if how else 1)
    assert {(who["reason"], who["error"]) for who in refused} == {("not permitted", "Operation not permitted")}
    assert released(hold) == 0


@pytest.mark.parametrize("how", [[], ["--tree"]])
@pytest.mark.parametrize("name", ["0", "KILL"])
def test_without_pidfd_send_signal_nothing_is_sent(payload: Payloads, how: list[str], name: str) -> None:
    hold = payload("session")
    hold.wait_ready(3)
    said = inspect("signal", *how, str(hold.pid), name, env={"SPURPROC_MASK": "pidfd_send_signal"})
    assert said.code == 5
    assert "pidfd_send_signal" in said.out + said.err
    assert released(hold) == 0


CONTAINMENTS = [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_run_is_its_whole_tree(tmp_path: Path, containment: Containment) -> None:
    """The leader and a child in a session of its own, which says that it is there."""
    os.mkfifo(tmp_path / "there")
    script = f'setsid sh -c "echo > {tmp_path}/there; exec sleep 1000" & wait'
    with recorded(tmp_path / "run", "sh", "-c", script, containment=containment) as run:
        assert (tmp_path / "there").read_text() == "\n"
        leader = inspect_json("signal", "--leader", run.folder, "0")
        tree = inspect_json("signal", run.folder, "TERM")
        assert str(run.wait(10)) == "killed by SIGTERM"
        again = inspect_here_after(run.folder)
    assert (leader["scope"], leader["report"]["signalled"], leader["report"]["route"]) == ("leader", 1, ["PIDFD"])
    assert tree["exit_code"] == 0
    assert (tree["scope"], tree["report"]["signalled"]) == ("tree", 2)
    assert tree["report"]["route"] == [containment.name]
    assert tree["target"] == {"kind": "run", "folder": str(tmp_path / "run")}
    assert again == 1


def inspect_here_after(folder: str) -> int:
    """The exit code of asking for the leader of a run that has ended."""
    return inspect("signal", "--leader", folder, "0").code


@pytest.mark.needs_cgroup_v2
def test_a_job_cannot_signal_its_own_cgroup(tmp_path: Path) -> None:
    """The program stands in the cgroup that it is asked to kill."""
    script = f'"{PROGRAM}" signal "{tmp_path}/run" KILL 2> "{tmp_path}/said"; echo $? > "{tmp_path}/code"'
    with recorded(tmp_path / "run", "sh", "-c", script, containment=Containment.CGROUP) as run:
        assert run.wait(60).succeeded
    assert (tmp_path / "code").read_text() == "1\n"
    assert "the caller lives in it" in (tmp_path / "said").read_text()
