"""`spurproc-inspect watch` on real trees: what is told, and that no listener is left in the kernel however it ends."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from spurproc.inspect import proc_connector
from spurproc.inspect.listener import Listener
from spurproc.inspect.proc_connector import ProcConnector
from tests.inspect_program import PROGRAM, assert_one_line, inspect
from tests.payload import Payload
from tests.pidfds import wait_ended
from tests.proc_listeners import Requests
from tests.recorded_payload import recorded_payload
from tests.relatives import Blocked
from tests.trees import move
from tests.unit.test_inspect_proc_events import datagram
from tests.watch_program import Watch

Start = Callable[..., Payload]
_CONNECTOR = 11  # NETLINK_CONNECTOR
_SMALL_BUFFER = (
    "import sys; from spurproc.inspect import main, proc_connector; proc_connector._BUFFER_BYTES = 1;"
    "sys.exit(main.main(sys.argv[1:]))"
)

_STOPS_ONCE = (
    "import signal, sys; from spurproc.inspect import main, watch;"
    "offset = watch.events_offset_ns; watch.events_offset_ns = lambda: (signal.raise_signal(signal.SIGSTOP), offset())[1];"
    "sys.exit(main.main(sys.argv[1:]))"
)
_TICKS_S = 0.1  # more than a fork may lie beside its start


@contextmanager
def shell(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell that does nothing until its input is closed."""
    with subprocess.Popen(["/bin/sh", "-c", f"read line; {script}"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.needs_proc_events
def test_forks_execs_and_exits_of_the_tree_alone() -> None:
    """In order, with the raw wait status; a stranger's are not told."""
    with shell("/bin/true; /bin/sh -c 'kill -9 $$'; exit 7") as job, Watch(job.pid) as watch:
        watch.until("member", job.pid)
        stranger = subprocess.run(["/bin/true"], check=True)
        assert stranger.returncode == 0
        let_go(job)
        assert watch.rest() == 0
        true, killed = [told["pid"] for told in watch.told if told["event"] == "fork"]
        assert {told["pid"] for told in watch.told} == {None, job.pid, true, killed}
        assert watch.of(true) == watch.of(killed) == ["fork", "exec", "exit"]
        assert watch.of(job.pid) == ["member", "exit"]
        statuses = {told["pid"]: told["wait_status"] for told in watch.told if told["event"] == "exit"}
        assert statuses == {true: 0, killed: 9, job.pid: 7 << 8}
        exits = {told["pid"]: told["text"] for told in watch.told if told["event"] == "exit"}
        assert exits[killed] == "killed by SIGKILL"
        assert watch.told[-1] | {"at_s": 0} == watch.told[-1] | {"at_s": 0, "event": "end", "reason": "empty", "exit_code": 0}
        assert watch.complaint() == ""


@pytest.mark.needs_proc_events
def test_it_goes_on_after_the_leader_until_the_last_one_ends(payload: Start) -> None:
    """An orphan in a session of its own is followed by its fork: no walk could find it any more."""
    job = payload("leaver")
    job.wait_ready()
    with Watch(job.pid) as watch:
        watch.until("member", job.pid)
        job.signal(signal.SIGUSR1)
        orphan = watch.until("fork")["pid"]
        watch.until("session", orphan)
        assert job.reap() == 0
        job.release()
        assert watch.until("exit", orphan)["wait_status"] == 3 << 8
        assert watch.rest() == 0
        assert watch.of(job.pid) == ["member", "exit"]


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_proc_events
def test_a_recorded_run_with_an_orphan(tmp_path: Path) -> None:
    """Whom only the cgroup names is a member from the start; the watch ends with the last of both."""
    with recorded_payload("double_fork_setsid", tmp_path / "run") as job:
        job.wait_ready(2)
        with Watch(job.folder) as watch:
            watch.until("member", job.leader_pid)
            job.release()
            assert watch.rest() == 0
            members = [told["pid"] for told in watch.told if told["event"] == "member"]
            assert len(members) == 2
            assert all(watch.of(pid) == ["member", "exit"] for pid in members)


@pytest.mark.needs_proc_events
def test_threads_are_no_processes(payload: Start) -> None:
    """Neither their start nor their end is told: a process ends with its last thread."""
    threads, half = payload("threads"), payload("main_thread_exits")
    threads.wait_ready()
    half.wait_ready()
    with Watch(threads.pid) as watch:
        watch.until("member")
        threads.release()
        assert watch.rest() == 0
        assert watch.of(threads.pid) == ["member", "exit"]
        assert watch.told[-2]["wait_status"] == 0
    with Watch(half.pid) as watch:
        watch.until("member")
        half.release()
        assert watch.rest() == 0
        assert watch.told[-2]["wait_status"] is None
    assert half.reap() == 7


@pytest.mark.needs_proc_events
def test_a_thread_that_execs_is_the_process_then(payload: Start) -> None:
    """The kernel tells of the old main thread's exit, which is not the process's."""
    job = payload("exec_self")
    job.wait_ready()
    with Watch(job.pid) as watch:
        watch.until("member")
        job.signal(signal.SIGUSR1)
        assert watch.until("exec", job.pid)["name"] == "exe"
        job.release()
        assert watch.until("exit", job.pid)["wait_status"] == 0
        assert watch.rest() == 0
        assert watch.of(job.pid) == ["member", "exec", "exit"]


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_proc_events
def test_a_sibling_made_by_a_member_is_one(tmp_path: Path) -> None:
    """CLONE_PARENT: its parent is none of the tree, its cgroup is."""
    with recorded_payload("sibling", tmp_path / "run") as job:
        job.wait_ready()
        with Watch(job.folder) as watch:
            watch.until("member", job.leader_pid)
            job.run.signal(signal.SIGUSR1)
            sibling = watch.until("fork")
            assert sibling["parent_pid"] not in (job.leader_pid, None)
            job.release()
            assert watch.rest() == 0
            assert watch.of(sibling["pid"]) == ["fork", "exit"]
            assert watch.of(job.leader_pid) == ["member", "exit"]


@pytest.mark.needs_proc_events
def test_a_name_cannot_draw_on_the_terminal() -> None:
    """A name that is no UTF-8 either; the kernel passes on any bytes."""
    script = 'input(); open("/proc/self/comm", "wb").write(b"\\x1b[2J\\n\\xff\\xe2"); input()'
    with (
        subprocess.Popen([sys.executable, "-Ic", script], stdin=subprocess.PIPE) as job,
        subprocess.Popen([PROGRAM, "watch", str(job.pid)], stdout=subprocess.PIPE) as watch,
    ):
        assert watch.stdout is not None
        assert job.stdin is not None
        while b"member" not in watch.stdout.readline():
            pass
        job.stdin.write(b"\n")
        job.stdin.flush()
        assert watch.stdout.readline().rstrip().endswith(rb"name      \x1b[2J\n\xff\xe2")
        job.stdin.write(b"\n")
        job.stdin.close()
        assert b"exited 0" in watch.stdout.read()
    assert watch.returncode == 0


@pytest.mark.needs_proc_events
def test_the_time_is_over(payload: Start) -> None:
    job = payload("hold")
    job.wait_ready()
    with Watch(job.pid, "--timeout", "0.05") as watch:
        assert watch.rest() == 4
        assert (watch.told[-1]["event"], watch.told[-1]["reason"]) == ("end", "timeout")


@pytest.mark.needs_proc_events
def test_the_time_is_over_on_a_host_that_never_rests(payload: Start) -> None:
    """There is always something to read: processes of others come and go faster than that is told."""
    job = payload("hold")
    job.wait_ready()
    storm = "while :; do (:); done"
    with subprocess.Popen(["/bin/sh", "-c", storm]) as one, subprocess.Popen(["/bin/sh", "-c", storm]) as other:
        try:
            with Watch(job.pid, "--timeout", "0.2") as watch:
                assert watch.rest() == 4
        finally:
            one.kill()
            other.kill()


@pytest.mark.needs_proc_events
@pytest.mark.parametrize("kinds", [(), ("--time", "--boottime=100000", "--monotonic=200000")], ids=["host", "time namespace"])
def test_a_watcher_that_had_to_wait_knows_whose_fork_it_is(kinds: tuple[str, ...]) -> None:
    """Start ticks are compared with the time of a fork: neither a busy CPU nor a clock with an offset sets them apart."""
    reading, writing = os.pipe()
    script = f"read line; /bin/cat /dev/fd/{reading}; exit 0"
    prefix = ("unshare", *kinds, "--fork", "--kill-child") if kinds else ()
    with (
        subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, pass_fds=[reading]) as job,
        Watch(job.pid, program=(*prefix, sys.executable, "-c", _STOPS_ONCE)) as watch,
        os.fdopen(writing, "wb") as hold,  # closed first, however this ends: the job waits for it
    ):
        os.close(reading)
        watcher = await_stopped(watch.process.pid)
        try:
            let_go(job)
            begun = time.monotonic()
            while time.monotonic() < begun + _TICKS_S or child_name(job.pid) != "cat":
                assert time.monotonic() < begun + 20, child_name(job.pid)
                os.sched_yield()
        finally:
            signal.pidfd_send_signal(watcher, signal.SIGCONT)
            os.close(watcher)
        assert watch.until("exec")["name"] == "cat"
        hold.close()
        assert watch.rest() == 0
        assert "missed" not in [told["event"] for told in watch.told]


def await_stopped(pid: int) -> int:
    """A pidfd of the process below `pid`, or of itself, that has stopped; blocks until one has."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for one in (pid, *children(pid)):
            with suppress(FileNotFoundError, ProcessLookupError):  # a child that ended between the two looks has not stopped
                if Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    return os.pidfd_open(one)
        os.sched_yield()
    raise AssertionError(f"process {pid} never stopped")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def child_name(pid: int) -> str:
    return "".join(Path(f"/proc/{child}/comm").read_text().strip() for child in children(pid))


@pytest.mark.needs_proc_events
def test_events_that_the_kernel_did_not_send_are_not_told() -> None:
    """Root can send to the group as well."""
    with (
        shell("exit 7") as job,
        Watch(job.pid) as watch,
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR) as forger,
    ):
        watch.until("member", job.pid)
        forger.sendto(datagram(0x80000000, struct.pack("=6I", job.pid, job.pid, 9, 17, 1, 1), cpu=1000), (0, 1))
        let_go(job)
        assert watch.rest() == 0
        assert [told["wait_status"] for told in watch.told if told["event"] == "exit"] == [7 << 8]


@pytest.mark.needs_proc_events
def test_the_answer_finds_room_where_others_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events come as soon as the socket is bound, and fill it before the request is made."""
    start = proc_connector._start_listener

    def start_late(sock: socket.socket, listen: bytes, ignore: bytes) -> Listener:
        for _ in range(20):
            subprocess.run(["/bin/true"], check=True)
        return start(sock, listen, ignore)

    with ProcConnector():
        monkeypatch.setattr(proc_connector, "_BUFFER_BYTES", 1)
        monkeypatch.setattr(proc_connector, "_start_listener", start_late)
        with ProcConnector() as crowded:
            assert crowded.began_ns > 0


@pytest.mark.needs_proc_events
def test_lost_events_are_told_and_made_up_for() -> None:
    """A watcher that is stopped while its buffer overflows says so, and looks who is left."""
    with (
        ProcConnector() as connector,
        shell("exit 0") as job,
        Watch(job.pid, program=(sys.executable, "-c", _SMALL_BUFFER)) as watch,
    ):
        requests = Requests(connector)
        watch.until("member", job.pid)
        watch.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, watch.process.pid, os.WSTOPPED | os.WNOWAIT)
        for _ in range(40):
            subprocess.run(["/bin/true"], check=True)
        let_go(job)
        wait_ended(os.pidfd_open(job.pid))
        watch.signal(signal.SIGCONT)
        watch.until("lost")
        watch.until("missed", job.pid)
        assert watch.rest() == 0
        assert watch.told[-1]["events_lost"] is True
        assert requests.seen() == ["listen", "ignore"]


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_proc_events
def test_who_was_moved_into_the_cgroup_is_found_before_it_is_called_empty(payload: Start, tmp_path: Path) -> None:
    """No event tells of a move."""
    guest = payload("hold")
    guest.wait_ready()
    with recorded_payload("hold", tmp_path / "run") as job:
        job.wait_ready()
        with Watch(job.folder) as watch:
            watch.until("member", job.leader_pid)
            assert job.run.record.cgroup is not None
            move(guest.pid, Path(job.run.record.cgroup.path))
            job.release()
            watch.until("found", guest.pid)
            guest.release()
            assert watch.rest() == 0
            assert watch.of(guest.pid) == ["found", "exit"]


def test_what_is_gone_cannot_be_watched() -> None:
    with Blocked() as gone:
        gone.reap()
        done = inspect("watch", gone.pid)
        assert done.code == 1
        assert_one_line(done)


@pytest.mark.needs_proc_events
def test_a_zombie_cannot_be_watched() -> None:
    with Blocked() as zombie:
        zombie.end()
        done = inspect("watch", zombie.pid)
        assert done.code == 1
        assert_one_line(done, f"cannot watch process {zombie.pid}: nothing of it lives")


@pytest.mark.parametrize("arguments", [(), ("0",), ("1", "--timeout", "nan"), ("1", "--timeout", "-1")])
def test_bad_input_is_named_in_one_line(arguments: tuple[str, ...]) -> None:
    done = inspect("watch", *arguments)
    assert done.code == 2
    assert_one_line(done)


@pytest.mark.own_pid_namespace(timeout_s=300)
def test_a_pid_namespace_has_no_events() -> None:
    done = inspect("watch", os.getpid())
    assert done.code == 5
    assert_one_line(done, "it needs the initial pid namespace")


@pytest.mark.needs_proc_events
def test_a_network_namespace_has_no_events() -> None:
    done = subprocess.run(["unshare", "--net", PROGRAM, "watch", str(os.getpid())], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"it needs the initial network namespace" in done.stderr
