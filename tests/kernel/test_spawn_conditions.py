"""Spawning from processes in bad shape: many threads, a large heap, closed stdio, sandboxes, signals turned off."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import errno
import mmap
import os
import resource
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import reader
from spurproc.core.spawn.environment import env_entries
from spurproc.core.spawn.spawn import SpawnPlan, spawn
from spurproc.errors import SpawnError
from tests import seccomp
from tests.pace import at_this_pace
from tests.rungs import probe_again
from tests.spawning import DETACH, DETACHED, PYTHON, ROUTES, THROUGH_PROGRAM, in_child, no_child_is_left, output_of, wait_end

_CLONE3, _CLOSE_RANGE = 435, 436
_PR_SET_CHILD_SUBREAPER = 36
_SYS_RECVMSG = {"x86_64": 47, "aarch64": 212}[os.uname().machine]
_SYS_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}[os.uname().machine]
_MFD_NOEXEC_SEAL = 8
_SYS_UMASK = {"x86_64": 95, "aarch64": 166}[os.uname().machine]
_SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
_HEAP_TIMEOUT_S = 120  # to touch it all, beside other work
_HEAP_BYTES = 2 << 30
_PAGE_BYTES = 4096


def median_s(turns: int) -> float:
    """Of a spawn, in processor time of the launcher, which copies what a fork copies: none of it is time that it waits."""
    plan = SpawnPlan(argv=["/bin/true"])
    took = []
    for _ in range(turns):
        begun = time.process_time()
        spawned = spawn(plan)
        took.append(time.process_time() - begun)
        wait_end(spawned)
    return statistics.median(took)


@contextlib.contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Threads that allocate, write and read in loops."""
    stop = threading.Event()
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def noise() -> None:
        while not stop.is_set():
            bytearray(100_000)
            with contextlib.suppress(BlockingIOError):
                os.write(write_fd, b"x" * 100)
                os.read(read_fd, 65536)

    threads = [threading.Thread(target=noise) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        os.close(read_fd)
        os.close(write_fd)


@contextlib.contextmanager
def touched_heap() -> Iterator[None]:
    """2 GiB of private memory, every page of it written."""
    with mmap.mmap(-1, _HEAP_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as heap:
        heap.madvise(mmap.MADV_NOHUGEPAGE)
        for offset in range(0, _HEAP_BYTES, _PAGE_BYTES):
            heap[offset] = 1
        yield


def test_many_threads() -> None:
    """50 threads at work: no spawn hangs, none inherits a lock."""
    with busy_threads(50):
        for fields in (*ROUTES, DETACHED):
            for _ in range(5):
                assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"


def test_many_threads_and_a_large_heap_together() -> None:
    """Both in one launcher: every route starts its jobs."""

    def body() -> None:
        with touched_heap(), busy_threads(50):
            for fields in (*ROUTES, DETACHED):
                assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"

    in_child(body, _HEAP_TIMEOUT_S)


def test_spawns_from_many_threads_at_once() -> None:
    """Each gets its own child and no other's descriptors."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda number: output_of(["/bin/echo", "-n", str(number)])[0], range(100)))
    assert outputs == [str(number).encode() for number in range(100)]


def test_threads_that_change_the_environment() -> None:
    """Reading what setenv(3) just freed would crash the launcher: thousands of new names, so that the table moves often."""

    def body() -> None:
        stop = threading.Event()

        def change(number: int) -> None:
            turn = 0
            while not stop.is_set():
                os.environ[f"SPURPROC_{number}_{turn % 2000}"] = "x" * (turn % 200)
                turn += 1
                if turn % 2000 == 0:
                    for left in range(2000):
                        del os.environ[f"SPURPROC_{number}_{left}"]

        threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert all(b"=" in entry for entry in env_entries(None))
        stop.set()
        for thread in threads:
            thread.join()

    in_child(body)


@pytest.mark.needs_facility("clone3")
def test_heap_of_2_gib_costs_nothing() -> None:
    """Every page touched; a fork would copy 4 MiB of page tables and take 40 ms. Bounded loosely: the benchmark says more."""

    def body() -> None:
        small_s = median_s(20)
        with touched_heap():
            assert median_s(20) < small_s * 3 + 0.005

    in_child(body, _HEAP_TIMEOUT_S)


def test_closed_stdio() -> None:
    """0-2 closed in the launcher: its own descriptors do not land there, the job's do."""

    def body() -> None:
        for fd in range(3):
            os.close(fd)
        for fields in (*ROUTES, DETACHED, {"stdin": "/dev/zero"}):
            output, _ = output_of(["/bin/ls", "-l", "/proc/self/fd"], **fields)
            spawned = spawn(SpawnPlan(argv=["/bin/true"], **fields))
            assert spawned.pidfd.fileno() > 2
            wait_end(spawned)
            shown = [line.split(b" -> ")[0].rsplit(b" ", 1)[-1] for line in output.splitlines()[1:]]
            assert shown == [b"0", b"1", b"2", b"3"]

    in_child(body)


def children_s() -> float:
    """Processor time of the children that were reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _refusal(**fields: Any) -> int | None:
    """The errno that a start of these fields is refused with; None if it was not."""
    try:
        spawned = spawn(SpawnPlan(argv=["/bin/true"], **fields))
    except SpawnError as error:
        return error.errno
    wait_end(spawned)
    return None


def test_no_descriptor_left() -> None:
    """EMFILE, wherever it strikes on the way, is a SpawnError; nothing is left open or unreaped and the next start is fine."""

    def body() -> None:
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        read_fd, write_fd = os.pipe()
        reader()
        lowest = os.dup(read_fd)
        os.close(lowest)
        for fields in (*ROUTES, DETACHED, THROUGH_PROGRAM | DETACHED):
            before, seen = os.listdir("/proc/self/fd"), set()
            for room in range(12):
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, hard))
                seen.add(_refusal(**fields))
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert seen == {None, errno.EMFILE}
            assert os.listdir("/proc/self/fd") == before
            no_child_is_left()
            assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"
        os.close(read_fd)
        os.close(write_fd)

    in_child(body)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_refused_close_range_is_not_replaced_by_counting(number: int) -> None:
    """A limit of as many descriptors as the kernel allows, and no close_range: the open ones are listed, in no time."""

    def body() -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with contextlib.suppress(ValueError):  # more needs CAP_SYS_RESOURCE
            most = int(Path("/proc/sys/fs/nr_open").read_text())
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        seccomp.refuse(_CLOSE_RANGE, number)
        probe_again()
        assert not Facilities.current().close_range
        leaked = os.dup2(1, 700)
        for fields in ROUTES:
            begun = children_s()
            output, _ = output_of(["/bin/ls", "/proc/self/fd"], **fields)
            assert children_s() - begun < at_this_pace(1)
            assert output.split() == [b"0", b"1", b"2", b"3"]
        os.close(leaked)

    in_child(body)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_refused_clone3_is_replaced_by_a_fork(number: int) -> None:
    """Start, failure and detachment all work in copied memory."""

    def body() -> None:
        seccomp.refuse(_CLONE3, number)
        probe_again()
        assert not Facilities.current().clone3
        for fields in (*ROUTES, DETACHED):
            assert output_of(["/bin/echo", "-n", "here"], **fields)[0] == b"here"
            with pytest.raises(OSError, match="EXEC") as caught:
                spawn(SpawnPlan(argv=["/no/such/program"], **fields))
            assert caught.value.errno == errno.ENOENT

    in_child(body)


@DETACH
def test_channel_that_cannot_be_received(*, detach: bool) -> None:
    """The program runs by then: it is killed and reaped, also where a detached one comes to us."""

    def body() -> None:
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        seccomp.refuse(_SYS_RECVMSG, errno.EPERM)
        with pytest.raises(SpawnError) as caught:
            spawn(SpawnPlan(argv=["/bin/true"], umask=0o77, detach=detach))
        assert (caught.value.errno, caught.value.stage) == (errno.EPERM, "CLONE")
        no_child_is_left()

    in_child(body)


@pytest.mark.needs_kernel(6, 3)
def test_host_that_gives_no_executable_memory_file() -> None:
    """As Linux 6.3 to 6.5 with vm.memfd_noexec=2, which refuse one that is not asked for as never to be executed."""

    def body() -> None:
        seccomp.refuse(_SYS_MEMFD_CREATE, errno.EACCES, spared=(1, _MFD_NOEXEC_SEAL))
        assert output_of(["/bin/echo", "-n", "here"], **THROUGH_PROGRAM)[0] == b"here"

    in_child(body)


def test_kernel_that_does_not_know_such_a_memory_file() -> None:
    """Before 6.3: EINVAL, and the plan is passed as ever."""

    def body() -> None:
        seccomp.refuse(_SYS_MEMFD_CREATE, errno.EINVAL, hit=(1, _MFD_NOEXEC_SEAL))
        assert output_of(["/bin/echo", "-n", "here"], **THROUGH_PROGRAM)[0] == b"here"

    in_child(body)


def test_refused_umask_is_loud() -> None:
    """umask(2) cannot fail, but in a sandbox it can be refused: the job must not run with another one."""

    def body() -> None:
        seccomp.refuse(_SYS_UMASK, errno.EPERM)
        with pytest.raises(SpawnError, match="UMASK"):
            spawn(SpawnPlan(argv=["/bin/true"], umask=0o77))

    in_child(body)


def test_signals_turned_off_in_the_launcher() -> None:
    """SIGCHLD ignored: the kernel reaps, and yet the spawn is right; SIGTERM blocked: the job still dies of it."""

    def body() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        for fields in ROUTES:
            spawned = spawn(SpawnPlan(argv=["/bin/sleep", "60"], **fields))
            assert spawned.identity.pid > 0
            signal.pidfd_send_signal(spawned.pidfd.fileno(), signal.SIGTERM)
            info = wait_end(spawned)
            assert info.signal == signal.SIGTERM or info.kind.value == "unknown"
            with pytest.raises(OSError, match="EXEC"):
                spawn(SpawnPlan(argv=["/no/such/program"], **fields))

    in_child(body)


def test_signals_that_libc_keeps_for_itself(payload_program: Callable[[str], Path]) -> None:
    """32 and 33 ignored, which no libc function can do and some launchers were started with: default in the job."""

    def body() -> None:
        ignore = struct.pack("=QQQQ", 1, 0, 0, 0)
        for number in (32, 33, 34, 64):
            assert ctypes.CDLL(None).syscall(_SYS_RT_SIGACTION, number, ignore, None, 8) == 0
        for fields in ROUTES:
            assert b"disposition" not in output_of([payload_program("probe")], **fields)[0]

    in_child(body)


def test_pipeline_ends_by_sigpipe() -> None:
    """Python ignores SIGPIPE; its jobs do not."""
    assert output_of(["bash", "-c", "yes | head -n1; exit ${PIPESTATUS[0]}"])[0] == b"y\n"
    assert output_of(["bash", "-c", "yes | head -n1; exit ${PIPESTATUS[0]}"])[1].code == 128 + signal.SIGPIPE


def test_background_launcher_of_a_shell() -> None:
    """`sh -c "launcher &"` has INT and QUIT ignored: the job has not."""
    program = (
        "from spurproc.core.spawn.spawn import SpawnPlan, spawn\n"
        "spawned = spawn(SpawnPlan(argv=['grep', 'SigIgn', '/proc/self/status'], stdout=1))\n"
        "spawned.pidfd.wait(10)\n"
    )
    output = subprocess.run(
        ["sh", "-c", '"$@" & wait', "sh", PYTHON, "-c", program], stdout=subprocess.PIPE, check=True, timeout=30
    ).stdout
    assert output.split() == [b"SigIgn:", b"0" * 16]


def test_job_outlives_the_thread_that_started_it() -> None:
    """No pdeathsig, which would fire when the thread ends."""
    spawned = []
    thread = threading.Thread(target=lambda: spawned.append(spawn(SpawnPlan(argv=["cat"], stdin=read_fd))))
    read_fd, write_fd = os.pipe()
    thread.start()
    thread.join()
    os.close(read_fd)
    assert spawned[0].pidfd.liveness().value == "alive"
    os.close(write_fd)
    assert wait_end(spawned[0]).succeeded


def test_detached_job_outlives_its_launcher() -> None:
    """And is not its child: the launcher has none when it ends."""
    read_fd, write_fd = os.pipe()

    def body() -> None:
        spawn(SpawnPlan(argv=["sh", "-c", "read line; echo $line"], stdin=hold_read, stdout=write_fd, detach=True))
        with pytest.raises(ChildProcessError):
            os.wait()

    hold_read, hold_write = os.pipe()
    in_child(body)
    os.close(write_fd)
    os.write(hold_write, b"still here\n")
    assert os.read(read_fd, 100) == b"still here\n"
    for fd in (read_fd, hold_read, hold_write):
        os.close(fd)
