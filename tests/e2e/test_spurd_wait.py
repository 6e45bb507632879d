"""`spurd wait` and `submit --wait`: what is seen meanwhile, whatever becomes of the agent, and the exit that is passed on."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from spurproc.errors import WaitTimeout
from tests.agent_service import AgentDesk
from tests.inspect_program import plain
from tests.spurd_command import PROGRAM, Spurd, assert_one_line, ended, line_of


@pytest.mark.parametrize(
    ("kind", "number", "code", "said"),
    [
        ("exited", 0, 0, "exited 0"),
        ("exited", 3, 3, "exited 3"),
        ("exited", 255, 255, "exited 255"),
        ("signaled", 15, 143, "killed by SIGTERM"),
        ("signaled", 9, 137, "killed by SIGKILL"),
        ("not-started", 2, 126, "not started: No such file or directory (ENOENT) at stage EXEC"),
        ("unknown", 0, 125, "unknown: nobody saw it"),
    ],
)
def test_the_exit_is_passed_on(spurd: Spurd, desk: AgentDesk, kind: str, number: int, code: int, said: str) -> None:
    with spurd.start("submit", "--wait", "--", "true") as process:
        assert line_of(process) == "submitted job 1"
        assert line_of(process) == "job 1.1: queued"
        desk.do("dispatch")
        assert line_of(process) == "job 1.1: running"
        desk.do("end", "1.1", kind, number)
        assert ended(process) == (code, f"job 1.1: {said}\n", "")
    assert spurd.here("wait", 1) == (code, f"job 1.1: {said}\n", "")
    last = json.loads(spurd.here("wait", 1, "--json").out)
    assert (last["event"], last["exit_code"], last["attempt"]["exit"]["kind"]) == ("ended", code, kind)


def test_a_job_that_is_cancelled_says_so_and_how_it_ended(spurd: Spurd) -> None:
    spurd.here("submit", "--", "true")
    spurd.here("cancel", 1)
    assert spurd.here("wait", 1) == (126, "job 1.1: not started: it was cancelled before it was dispatched (cancelled)\n", "")


def test_json_is_a_line_for_each_change(spurd: Spurd, desk: AgentDesk) -> None:
    with spurd.start("submit", "--wait", "--json", "--", "true") as process:
        events = [json.loads(line_of(process)) for _ in range(2)]
        desk.run("exited", 1)
        said = ended(process)
    events += map(json.loads, said.out.splitlines())
    assert [event["event"] for event in events] in (
        ["submitted", "changed", "changed", "ended"],
        ["submitted", "changed", "ended"],  # it ran faster than anybody looked
    )
    assert all(event["command"] == "submit" for event in events)
    assert said.code == events[-1]["exit_code"] == 1


def test_the_time_is_over(spurd: Spurd) -> None:
    spurd.here("submit", "--", "true")
    said = spurd.here("wait", 1, "--timeout", "0.2")
    assert (said.code, said.out, said.err) == (124, "job 1.1: queued\n", "spurd: job 1 has not ended in 0.2 s\n")
    *_, last = map(json.loads, spurd.here("wait", 1, "--timeout", "0.2", "--json").out.splitlines())
    assert (last["exit_code"], last["error"]["kind"]) == (124, WaitTimeout.__name__)


@pytest.mark.parametrize("arguments", [["wait", "7"], ["submit", "--wait", "--cpus", "9", "--", "true"]])
def test_what_goes_wrong_with_us_is_no_exit_of_a_job(spurd: Spurd, arguments: list[str]) -> None:
    said = spurd.here(*arguments)
    assert said.code == 125
    assert_one_line(said)


@pytest.mark.parametrize("arguments", [["wait", "7"], ["submit", "--wait", "--", "true"]])
def test_no_agent_is_no_exit_of_a_job(spurd: Spurd, arguments: list[str]) -> None:
    said = spurd(*arguments, env={"SPURD_STATE_DIR": "/nonexistent"})
    assert said.code == 125
    assert_one_line(said, "there is no socket; start it with `spurd serve`")


def test_bad_usage_stays_bad_usage(spurd: Spurd) -> None:
    assert spurd.here("wait", "x").code == 2
    assert spurd.here("submit", "--wait", "--key", "", "--", "true").code == 2
    assert_one_line(spurd.here("wait", "7.1"), "cannot wait for 7.1: an attempt is no job")


def test_an_interrupt_ends_the_wait_and_not_the_job(spurd: Spurd) -> None:
    with spurd.start("submit", "--wait", "--", "true") as process:
        assert [line_of(process) for _ in range(2)] == ["submitted job 1", "job 1.1: queued"]
        process.send_signal(signal.SIGINT)
        said = ended(process)
    assert said.code == 130
    assert_one_line(said, "job 1 goes on", "`spurd wait 1`", "`spurd cancel 1`")
    assert spurd.json("show", 1)["job"]["state"] == "queued"


def test_an_agent_that_is_started_again_is_waited_for(spurd: Spurd, desk: AgentDesk) -> None:
    """It was stopped in the middle; the job ended while nobody was there; nothing is lost, and nothing told twice."""
    with spurd.start("submit", "--wait", "--", "true") as process:
        assert [line_of(process) for _ in range(2)] == ["submitted job 1", "job 1.1: queued"]
        assert desk.stop() == 0
        assert "it hung up; asking again" in line_of(process)
        with AgentDesk(spurd.folder) as again:
            assert again.run("exited", 7) == "1.1"
            said = ended(process)
    assert (said.code, said.err) == (7, "")
    assert said.out.splitlines()[-1] == "job 1.1: exited 7"
    assert "queued" not in said.out


def _waiting(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


def test_who_waits_waits_for_an_agent_that_is_being_started_again(spurd: Spurd, desk: AgentDesk, tmp_path: Path) -> None:
    """From the first word on: it was stopped before anybody asked."""
    spurd.here("submit", "--workdir", tmp_path, "-o", "out", "--", "true")
    desk.stop()
    waiting = f"spurd: waiting for the agent at '{desk.path}'\n"
    commands = (["wait", "1"], ["wait", "1", "--json"], ["submit", "--wait", "--", "true"], ["logs", "-f", "1"])
    with ExitStack() as begun:
        processes = [begun.enter_context(spurd.start(*command)) for command in commands]
        assert [_waiting(process) for process in processes] == [waiting] * 4
        with AgentDesk(spurd.folder) as again:
            assert line_of(processes[2]) == "submitted job 2"
            again.do("dispatch")
            (tmp_path / "out").write_text("hello\n")
            assert line_of(processes[3]) == "hello"
            again.do("end", "1.1", "exited", 7)
            again.run("exited", 8)
            said = [ended(process) for process in processes]
    assert [(one.code, one.err) for one in said] == [(7, ""), (7, ""), (8, ""), (0, "")]
    assert [json.loads(line)["event"] for line in said[1].out.splitlines()][:1] == ["agent-away"]


def test_nobody_waits_for_an_agent_beyond_the_time(spurd: Spurd, desk: AgentDesk) -> None:
    desk.stop()
    said = spurd.here("wait", 1, "--timeout", "0.3")
    assert (said.code, said.out) == (124, "")
    assert said.err.splitlines() == [
        f"spurd: waiting for the agent at '{desk.path}'",
        f"spurd: cannot tell how job 1 stands: no agent answers at '{desk.path}', for 0.3 s",
    ]


def test_what_does_not_wait_fails_at_once(spurd: Spurd, desk: AgentDesk) -> None:
    desk.stop()
    for command in (["show", "1"], ["logs", "1"], ["submit", "--", "true"], ["status"], ["cancel", "1"]):
        said = spurd.here(*command)
        assert said.code == 3
        assert_one_line(said, f"cannot reach the agent at '{desk.path}': there is no socket")


@pytest.mark.parametrize("what", ["nothing", "file", "folder"])
def test_where_there_never_was_an_agent_nobody_waits(tmp_path: Path, what: str) -> None:
    spurd, there = Spurd(tmp_path), tmp_path / "control.sock"
    if what != "nothing":
        (there.touch if what == "file" else there.mkdir)()
    for command, code in ((["wait", "1"], 125), (["submit", "--wait", "--", "true"], 125), (["logs", "-f", "1"], 3)):
        said = spurd.here(*command)
        assert said.code == code
        assert_one_line(said, f"cannot reach the agent at '{there}': ")


def shown_while_it_waits(spurd: Spurd, desk: AgentDesk) -> bytes:
    """All that a terminal is sent, from the first line to the end of job 1, which exits with 3."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "wait", "1"], stdin=slave, stdout=slave, stderr=slave, env=spurd.env | {"TERM": "xterm"}
    ) as process:
        os.close(slave)
        shown = b""
        while b"queued" not in shown:
            shown += os.read(master, 65536)
        desk.run("exited", 3)
        assert process.wait() == 3
    with suppress(OSError):  # EIO at its end
        while True:
            shown += os.read(master, 65536)
    os.close(master)
    return shown


def test_on_a_terminal_one_line_moves(spurd: Spurd, desk: AgentDesk) -> None:
    """And is gone afterwards: what stands there in the end is the end."""
    assert spurd.here("submit", "--name", "n" * 100, "--", "true").code == 0
    shown = shown_while_it_waits(spurd, desk)
    assert b"0:00:0" in shown
    assert b"\x1b[1A\x1b[2K" in shown  # back to it, and wiped
    assert plain(shown.decode()).replace("\r", "").endswith("job 1.1: exited 3\n")


def test_names_do_not_move_the_line(spurd: Spurd, desk: AgentDesk) -> None:
    """A name is escaped there as well. No control character gets into one, so a backslash shows it."""
    assert spurd.here("submit", "--name", "a\\b", "--", "true").code == 0
    assert b"a\\\\b" in shown_while_it_waits(spurd, desk)
