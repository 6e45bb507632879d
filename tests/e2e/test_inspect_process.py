"""spurproc-inspect on single processes: alive, ended, reaped, not ours, and under a number that another had."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.process_walk import read_process
from spurproc.inspect.held import open_process
from spurproc.inspect.process_facts import member_name, process_facts
from spurproc.inspect.target import PidTarget
from tests.asleep import await_sleep, await_waiting
from tests.inspect_program import (
    COLUMNS,
    PROGRAM,
    assert_one_line,
    inspect,
    inspect_as,
    inspect_here,
    inspect_json,
    inspect_on_terminal,
    plain,
    words,
)
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, Foster, reborn
from tests.trees import released

Payloads = Callable[..., Payload]
HOSTILE = b"\x1b[2J\n\xff)"
INODES = pytest.mark.needs_facility("pidfs_inode")


def name_of(pid: int) -> str:
    return f"{pid}:{ProcessIdentity.of(pid).pidfs_inode}"


@INODES
@pytest.mark.parametrize("by", ["number", "name"])
def test_show_a_live_process(payload: Payloads, by: str) -> None:
    hold = payload("hold")
    hold.wait_ready()
    name = name_of(hold.pid)
    document = inspect_json("show", str(hold.pid) if by == "number" else name)
    identity = ProcessIdentity.of(hold.pid)
    assert document["exit_code"] == 0
    assert document["target"]["name"] == name
    assert document["target"]["identity"] == identity.to_json() | {
        "strength": "pidfs-inode",
        "provenance": document["target"]["identity"]["provenance"],
    }
    assert "no other process of this boot" in document["target"]["identity"]["provenance"]
    assert document["liveness"] == "alive"
    assert document["evidence"] in ("handle", "pidfs-inode")
    assert document["provenance"]
    assert document["containment"]["kind"] == "process group"
    assert [member["pid"] for member in document["members"]["listed"]] == [hold.pid]
    assert document["process"]["parent_pid"] == os.getpid()
    assert document["process"]["name"] == Path(f"/proc/{hold.pid}/comm").read_text().rstrip("\n")
    assert (document["state"], document["exit"]) == ("running", None)


@INODES
def test_text_on_a_terminal_and_piped_says_the_same(payload: Payloads) -> None:
    hold = payload("hold")
    hold.wait_ready()
    piped, on_terminal = inspect("show", str(hold.pid)), inspect_on_terminal("show", str(hold.pid))
    assert words(piped.out) == words(on_terminal.out)
    assert max(map(len, plain(on_terminal.out).splitlines())) <= COLUMNS
    identity = ProcessIdentity.of(hold.pid)
    for fact in (identity.to_text(), f"process      {name_of(hold.pid)}", "liveness     alive", "members seen: 1"):
        assert fact in piped.out  # each on a line of its own, uncut


@pytest.mark.parametrize("on_terminal", [False, True])
def test_a_hostile_process_name_is_harmless(on_terminal: bool) -> None:
    """A process may be called anything, and a job chooses its arguments."""
    with Blocked(name=HOSTILE) as blocked:
        said = (inspect_on_terminal if on_terminal else inspect)("show", str(blocked.pid))
        document = inspect_json("show", str(blocked.pid))
    assert r"\x1b[2J\n\xff)" in said.out
    assert "\x1b[2J" not in said.out
    assert said.out.count(r"\x1b[2J\n\xff)") == 2  # its name, and its row among the members
    assert document["process"]["name"] == "\x1b[2J\n\\xff)"
    assert document["members"]["listed"][0]["name"] == "\x1b[2J\n\\xff)"


def test_hostile_arguments_are_harmless() -> None:
    """Such as those of `sleep`, which may be given any."""
    with subprocess.Popen([b"sleep", b"1000", b"\x1b]0;x\x07\n\xe2\x80\xae"], stderr=subprocess.DEVNULL) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # "invalid time interval": a zombie has no arguments
        assert inspect_json("show", str(process.pid))["process"]["command"] == []
    with subprocess.Popen([b"sh", b"-c", b"read line", b"\x1b]0;x\x07\n\xff"], stdin=subprocess.PIPE) as process:
        await_sleep(process.pid, "pipe")
        said = inspect("show", str(process.pid))
        assert inspect_json("show", str(process.pid))["process"]["command"][3] == "\x1b]0;x\x07\n\\xff"
    assert "\x1b" not in said.out
    assert r"\x1b]0;x\x07\n\xff" in said.out


@INODES
@pytest.mark.parametrize("arguments", [["show"], ["exit"], ["wait"], ["signal", "KILL"], ["signal", "--tree", "KILL"]])
def test_another_inode_is_gone_and_its_successor_left_alone(
    capfd: pytest.CaptureFixture[str], payload: Payloads, arguments: list[str]
) -> None:
    hold = payload("hold")
    hold.wait_ready()
    other = f"{hold.pid}:{(ProcessIdentity.of(hold.pid).pidfs_inode or 0) + 1}"
    command, *rest = arguments
    said = inspect_here(capfd, command, other, *rest)
    assert said.code == 1
    assert_one_line(said, other, "it is gone", name_of(hold.pid))
    assert released(hold) == 0


@INODES
@pytest.mark.own_pid_namespace(mount=True)
def test_a_number_given_again_is_not_the_old_process(capfd: pytest.CaptureFixture[str]) -> None:
    """The number is forced: the same pid, as good as the same moment, and another process."""
    with Blocked() as first:
        name, pid = name_of(first.pid), first.pid
        first.reap()
        with reborn(pid):
            said = inspect_here(capfd, "signal", name, "KILL")
            assert said.code == 1
            assert_one_line(said, "it is gone")
            assert inspect_here(capfd, "show", str(pid)).code == 0


@INODES
@pytest.mark.own_pid_namespace(mount=True)
def test_what_proc_says_is_of_the_held_process_alone() -> None:
    """Reaped, and its number given again, between the hold and the look: nothing is told of the successor."""
    with Blocked(name=b"first") as first:
        row = read_process(first.pid)
        assert row is not None
        with open_process(PidTarget(first.pid)) as held:
            assert process_facts(held).name == member_name(row) == "first"
            first.reap()
            with reborn(row.pid):
                assert set(process_facts(held).to_json().values()) == {None}
                assert member_name(row._replace(start_ticks=row.start_ticks - 1)) is None


@pytest.mark.parametrize("arguments", [["show"], ["signal", "KILL"]])
def test_without_inodes_a_name_is_unsupported(payload: Payloads, arguments: list[str]) -> None:
    hold = payload("hold")
    hold.wait_ready()
    command, *rest = arguments
    said = inspect(command, f"{hold.pid}:1", *rest, env={"SPURPROC_MASK": "pidfs_inode"})
    assert said.code == 5
    assert_one_line(said, f"{hold.pid}:1", "masked", "6.9")
    weaker = inspect_json("show", str(hold.pid), env={"SPURPROC_MASK": "pidfs_inode"})
    assert weaker["target"]["name"] == str(hold.pid)
    assert weaker["target"]["identity"]["strength"] == "start-ticks"
    assert released(hold) == 0


def test_the_number_of_a_thread_is_no_process(capfd: pytest.CaptureFixture[str], payload: Payloads) -> None:
    threads = payload("threads", "2")
    threads.wait_ready()
    tid = next(int(name) for name in os.listdir(f"/proc/{threads.pid}/task") if int(name) != threads.pid)
    said = inspect_here(capfd, "show", str(tid))
    assert said.code == 2
    assert_one_line(said, str(tid), "a thread, not a process")


@pytest.mark.parametrize("command", ["exit", "wait"])
@pytest.mark.parametrize(("how", "number", "code", "text"), [("exit", 0, 0, "exited 0"), ("exit", 7, 1, "exited 7")])
@pytest.mark.needs_root
def test_a_zombie_tells_root_its_status(payload: Payloads, command: str, how: str, number: int, code: int, text: str) -> None:
    with Foster(payload, how, number) as foster:
        foster.end()
        document = inspect_json(command, str(foster.pid))
        foster.reap()
    assert document["exit_code"] == code
    assert document["state"] == "ended"
    assert (document["exit"]["text"], document["exit"]["source"]) == (text, "zombie")
    assert document["exit"]["provenance"]
    assert document["target"]["identity"]["pid"] == document["target"]["pid"]


@pytest.mark.needs_root
@pytest.mark.parametrize("command", ["exit", "wait", "show"])
def test_a_zombie_of_a_stranger_is_unknown(payload: Payloads, command: str) -> None:
    """Never 0: its status is not for us, and that is the reason."""
    with Foster(payload, "exit", 0) as foster:
        foster.end()
        document = inspect_as(NOBODY, command, str(foster.pid))
        foster.reap()
    assert document["exit"]["kind"] == "unknown"
    assert document["exit"]["source"] == "none"
    assert "may not read its status" in document["exit"]["reason"]
    assert document["exit_code"] == (0 if command == "show" else 1)


def test_what_still_runs_has_no_end(payload: Payloads) -> None:
    hold = payload("hold")
    hold.wait_ready()
    document = inspect_json("exit", str(hold.pid))
    assert (document["exit_code"], document["state"], document["exit"]) == (4, "running", None)
    said = inspect("wait", str(hold.pid), "--timeout", "0.01")
    assert said.code == 4
    assert f"exit      process {hold.pid} still runs after 0.01 s" in said.out
    assert inspect_json("wait", str(hold.pid), "--timeout", "0")["state"] == "timeout"


@pytest.mark.needs_facility("pidfd_exit_info")
@pytest.mark.parametrize(("number", "code"), [(0, 0), (3, 1)])
def test_wait_wakes_at_the_end(payload: Payloads, number: int, code: int) -> None:
    """It sleeps in poll until then; by the kernel's record, or by the zombie if the reap comes late."""
    hold = payload("hold", str(number))
    hold.wait_ready()
    with subprocess.Popen([PROGRAM, "wait", str(hold.pid), "--timeout", "60"], stdout=subprocess.PIPE) as waiting:
        await_waiting(waiting.pid)
        hold.release()
        assert hold.reap() == number
        out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == code
    assert f"exited {number}".encode() in out


def test_sigterm_ends_a_wait_by_the_signal(payload: Payloads) -> None:
    """It is no exit code of ours; for `watch` see the proof that no listener is left."""
    hold = payload("hold")
    hold.wait_ready()
    with subprocess.Popen([PROGRAM, "wait", str(hold.pid)], stdout=subprocess.DEVNULL) as waiting:
        await_waiting(waiting.pid)
        waiting.terminate()
        assert waiting.wait(60) == -signal.SIGTERM


def test_members_are_counted_and_bounded(payload: Payloads) -> None:
    session = payload("session")
    assert sorted(session.wait_ready(3)) == sorted(b"lgo")
    document = inspect_json("show", str(session.pid), "--members", "2")
    assert document["members"]["count"] == 3
    assert len(document["members"]["listed"]) == 2
    said = inspect("show", str(session.pid), "--members", "2")
    assert "members seen: 3, of which 2 are listed" in said.out
    assert inspect_json("show", str(session.pid), "--members", "0")["members"]["listed"] == []


def test_interrupts_are_left_as_they_are(payload: Payloads) -> None:
    """Started with SIGINT ignored (nohup, a background job of a script), it stays ignored: the wait goes on."""
    hold = payload("hold")
    hold.wait_ready()
    script = 'trap "" INT; exec "$0" wait "$1"'
    with subprocess.Popen(["sh", "-c", script, str(PROGRAM), str(hold.pid)], stdout=subprocess.DEVNULL) as waiting:
        await_waiting(waiting.pid)
        waiting.send_signal(signal.SIGINT)
        hold.release()
        hold.reap()
        assert waiting.wait(60) in (0, 1)
