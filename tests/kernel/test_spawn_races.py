"""What happens to a launcher just then: a signal while it sleeps, a fork in another thread, a target user who stops the child."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.process.identity import reader
from spurproc.core.spawn import spawn as spawn_module
from spurproc.core.spawn.clone_call import CloneRequest, CloneResult, clone
from spurproc.core.spawn.spawn import SpawnPlan, SpawnStage, begin, spawn
from spurproc.errors import SpawnError
from tests.pace import at_this_pace
from tests.pidfds import open_pidfd
from tests.spawning import DETACH, ROUTES, await_stage, in_child, no_child_is_left, status_fields, wait_end
from tests.syscall_watch import held_at, number

_F_SEAL_EXEC = 0x20  # Linux 6.3
_PR_SET_CHILD_SUBREAPER = 36
_TARGET = 54321

BOTH_ROUTES = pytest.mark.parametrize("fields", ROUTES, ids=["plain", "program"])


def _send(pid: int, sig: int) -> None:
    pidfd = open_pidfd(pid)
    try:
        signal.pidfd_send_signal(pidfd, sig)
    finally:
        os.close(pidfd)


def _open_descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


@BOTH_ROUTES
def test_no_handler_of_the_launcher_runs_in_its_child(fields: dict[str, Any]) -> None:
    """A signal to the child before its first instruction waits, and then acts by default: it is killed, we notice nothing."""

    def body() -> None:
        seen: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        reader()
        with (
            held_at("rt_sigaction", lambda pid: _send(pid, signal.SIGUSR1)),
            pytest.raises(SpawnError, match="signal 10 before exec"),
        ):
            spawn(SpawnPlan(argv=["/bin/true"], **fields))
        assert seen == []

    in_child(body)


@pytest.mark.needs_facility("pidfd_send_signal")
@BOTH_ROUTES
@DETACH
@pytest.mark.parametrize("taken_by", ["main", "another"])
def test_interrupt_while_the_launcher_sleeps(fields: dict[str, Any], taken_by: str, *, detach: bool) -> None:
    """Ctrl-C comes up when the clone has returned: what was started is killed, nobody would know of it.

    The main thread has its signals held; one that another thread takes from the kernel is raised in it all the same.
    """

    def body() -> None:
        main = threading.main_thread().ident
        assert main is not None
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        signal.signal(signal.SIGINT, signal.default_int_handler)
        wait_end(spawn(SpawnPlan(argv=["/bin/true"], **fields)))
        before = _open_descriptors()
        thread = {"main": lambda: main, "another": threading.get_ident}[taken_by]
        interrupted = held_at("rt_sigaction", lambda pid: signal.pthread_kill(thread(), signal.SIGINT))
        with interrupted, pytest.raises(KeyboardInterrupt):
            spawn(SpawnPlan(argv=["/bin/sleep", "60"], detach=detach, **fields))
        no_child_is_left()
        assert len(_open_descriptors()) == len(before) + 1  # the watcher's own

    in_child(body)


def test_no_descriptor_is_left_for_the_channel() -> None:
    """Another thread has taken the last one since the clone: the program runs by then, and is killed and reaped."""

    def fill_up(_: int) -> None:
        os.close(lowest := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def body() -> None:
        reader()
        with held_at("execveat", fill_up), pytest.raises(SpawnError) as caught:
            spawn(SpawnPlan(argv=["/bin/true"], umask=0))
        assert (caught.value.errno, caught.value.stage) == (errno.EMFILE, "CLONE")
        no_child_is_left()

    in_child(body)


def test_descriptors_copied_by_a_fork_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiprocessing forks between our making of the channel and the exec, and lives on: the start is known all the same."""
    hold_read, hold_write = os.pipe()
    strangers = []

    def clone_beside_a_fork(request: CloneRequest) -> CloneResult:
        pid = os.fork()
        if pid == 0:
            os.close(hold_write)
            os.read(hold_read, 1)
            os._exit(0)
        strangers.append(pid)
        return clone(request)

    monkeypatch.setattr(spawn_module, "clone", clone_beside_a_fork)
    begun = time.monotonic()
    try:
        for fields in (*ROUTES, {"umask": 0o22, "detach": True}):
            wait_end(spawn(SpawnPlan(argv=["/bin/true"], **fields), timeout_s=8))
        with pytest.raises(SpawnError, match="EXEC"):
            spawn(SpawnPlan(argv=["/no/such/program"], umask=0o22), timeout_s=8)
        assert time.monotonic() - begun < at_this_pace(8)
    finally:
        os.close(hold_write)
        for pid in strangers:
            os.waitpid(pid, 0)
        os.close(hold_read)


@pytest.mark.needs_root
def test_target_user_cannot_reach_the_child_while_the_launcher_sleeps() -> None:
    """Until the exec of the static program, which wakes the launcher, the child is the launcher's user's.

    STOP is refused, and so is the memory, which is the launcher's.
    """

    def body() -> None:
        refused: list[int | None] = []

        def reach(pid: int) -> None:
            attempts: list[Callable[[], object]] = [
                lambda: _send(pid, signal.SIGSTOP),
                lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC),
            ]
            for attempt in attempts:
                try:
                    attempt()
                except PermissionError as error:
                    refused.append(error.errno)

        reader()
        wait_end(spawn(SpawnPlan(argv=["/bin/true"], umask=0)))
        with held_at("execveat", reach, uid=_TARGET):
            wait_end(spawn(SpawnPlan(argv=["/bin/true"], user=_TARGET, groups=[])))
        assert refused == [errno.EPERM, errno.EACCES]

    in_child(body)


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
@DETACH
def test_target_user_that_stops_the_child_at_a_stage(open_folder: Path, *, detach: bool) -> None:
    """It may: the process is its own by then. The launcher goes on, meets its deadline, and leaves nothing."""
    os.mkfifo(open_folder / "fifo")
    (open_folder / "fifo").chmod(0o666)
    plan = SpawnPlan(argv=["/bin/true"], user=_TARGET, groups=[], stdout=open_folder / "fifo", detach=detach)
    starting, spawned = begin(plan)
    await_stage(starting, SpawnStage.STDOUT)

    def stop_as_the_target() -> None:
        ctypes.CDLL(None).syscall(number("setresuid"), _TARGET, _TARGET, _TARGET)
        signal.pidfd_send_signal(spawned.pidfd.fileno(), signal.SIGSTOP)

    in_child(stop_as_the_target)
    while status_fields(Path(f"/proc/{spawned.pid}/status").read_bytes())["State"][0] != "T":
        os.sched_yield()
    with pytest.raises(SpawnError) as caught:
        starting.confirm(0.1)
    assert (caught.value.errno, caught.value.stage) == (errno.ETIMEDOUT, "STDOUT")
    assert spawned.identity.liveness().value == "gone"


def test_plan_cannot_be_changed_once_the_program_has_it() -> None:
    """What was checked is what is done, whoever else gets at the descriptor through /proc."""

    def body() -> None:
        seals: list[int] = []

        def look(pid: int) -> None:
            folder = f"/proc/{pid}/fd"
            names = [name for name in os.listdir(folder) if "spurproc-plan" in os.readlink(f"{folder}/{name}")]
            fd = os.open(f"{folder}/{names[0]}", os.O_RDWR)
            seals.append(fcntl.fcntl(fd, fcntl.F_GET_SEALS))
            os.close(fd)

        reader()
        with held_at("execveat", look):
            spawned = spawn(SpawnPlan(argv=["true"], umask=0o22))
        spawned.pidfd.wait(10)
        spawned.pidfd.close()
        assert [held & ~_F_SEAL_EXEC for held in seals] == [
            fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        ]

    in_child(body)
