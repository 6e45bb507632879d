"""A program that does not start: the errno, the stage and the reason, within milliseconds, and nothing left behind."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import reader
from spurproc.core.spawn import spawn as spawn_module
from spurproc.core.spawn.spawn import Spawned, SpawnPlan, spawn
from spurproc.errors import SpawnError
from tests import seccomp
from tests.pace import ahead, at_this_pace
from tests.payload import Payload
from tests.rungs import without
from tests.spawning import DETACH, DETACH_AND_STATUS, ROUTES, in_child, no_child_is_left, output_of, wait_end
from tests.syscall_watch import held_at
from tests.trees import move

_PR_SET_CHILD_SUBREAPER = 36
_SYS_SETSID = {"x86_64": 112, "aarch64": 157}[os.uname().machine]

BOTH_ROUTES = pytest.mark.parametrize("fields", ROUTES, ids=["plain", "program"])


def refused(argv: list[Any], **fields: Any) -> SpawnError:
    """The SpawnError that starting `argv` raises."""
    with pytest.raises(SpawnError) as caught:
        spawn(SpawnPlan(argv=argv, **fields))
    return caught.value


def script(folder: Path, content: bytes, mode: int = 0o755) -> Path:
    path = folder / "job.sh"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@BOTH_ROUTES
@DETACH
def test_missing_program(fields: dict[str, Any], *, detach: bool) -> None:
    """ENOENT at EXEC in under 20 ms: the best of five, since the machine is shared. The leak guard sees to the rest."""
    took_s = []
    for _ in range(5):
        begun = time.monotonic()
        with ahead():
            error = refused(["/no/such/program"], detach=detach, **fields)
        took_s.append(time.monotonic() - begun)
        assert (error.errno, error.stage, error.argv0, error.interpreter) == (errno.ENOENT, "EXEC", "/no/such/program", None)
    assert min(took_s) < at_this_pace(0.020)


@DETACH
def test_failed_plain_child_is_reaped_before_spawn_returns(*, detach: bool) -> None:
    """Even the detached one, by its intermediate: as a subreaper we would inherit it."""

    def body() -> None:
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        refused(["/no/such/program"], detach=detach)
        no_child_is_left()

    in_child(body)


@BOTH_ROUTES
@pytest.mark.parametrize(
    ("content", "interpreter"),
    [
        (b"#!/no/such/interpreter -x\n", "/no/such/interpreter"),
        (b"#! \t/no/such/interpreter\n", "/no/such/interpreter"),
        (b"#!/bin/sh\r\nexit 0\r\n", "/bin/sh\r"),
    ],
)
def test_missing_interpreter_is_named(tmp_path: Path, content: bytes, interpreter: str, fields: dict[str, Any]) -> None:
    """Not the script, which is there; a trailing CR is shown."""
    error = refused([script(tmp_path, content)], **fields)
    assert (error.errno, error.stage, error.interpreter) == (errno.ENOENT, "EXEC", interpreter)
    assert repr(interpreter) in str(error)


@BOTH_ROUTES
@pytest.mark.parametrize("content", [b"echo no shebang\n", b"\xef\xbb\xbf#!/bin/sh\n", b"\n#!/bin/sh\n", b""])
def test_unknown_format_is_refused_with_its_reason(tmp_path: Path, content: bytes, fields: dict[str, Any]) -> None:
    """One rule on both routes: never handed to a shell."""
    error = refused([script(tmp_path, content)], **fields)
    assert (error.errno, error.stage) == (errno.ENOEXEC, "EXEC")
    assert "#!" in str(error)


@BOTH_ROUTES
def test_what_may_not_be_executed(tmp_path: Path, fields: dict[str, Any]) -> None:
    """EACCES for a file without x and for a folder, ENOTDIR, ELOOP: the kernel's own word, at EXEC."""
    plain = script(tmp_path, b"#!/bin/sh\n", 0o644)
    (tmp_path / "loop").symlink_to("loop")
    for path, number in (
        (plain, errno.EACCES),
        (tmp_path, errno.EACCES),
        (plain / "under", errno.ENOTDIR),
        (tmp_path / "loop", errno.ELOOP),
    ):
        error = refused([path], **fields)
        assert (error.errno, error.stage) == (number, "EXEC")


@pytest.mark.own_pid_namespace(mount=True)
def test_noexec_mount(tmp_path: Path) -> None:
    """EACCES, and the mount is named as the reason."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(tmp_path)], check=True)
    error = refused([script(tmp_path, b"#!/bin/sh\n")])
    assert (error.errno, error.stage) == (errno.EACCES, "EXEC")
    assert "noexec" in str(error)


@pytest.mark.own_pid_namespace(mount=True)
@pytest.mark.parametrize("replacement", ["missing", "file", "fifo"])
def test_null_device_that_is_none(tmp_path: Path, replacement: str) -> None:
    """Refused, and nothing is written into what stands in its place."""
    for name in ("urandom", "zero"):
        (tmp_path / name).touch()
    if replacement == "file":
        (tmp_path / "null").touch(0o644)
    elif replacement == "fifo":
        os.mkfifo(tmp_path / "null")
    subprocess.run(["mount", "--bind", str(tmp_path), "/dev"], check=True)
    error = refused(["/bin/echo", "output"])
    assert error.stage == "DESCRIPTORS"
    assert "/dev/null" in str(error)
    assert replacement != "file" or (tmp_path / "null").read_bytes() == b""


@BOTH_ROUTES
def test_arguments_beyond_the_limit(fields: dict[str, Any]) -> None:
    """Only the kernel says E2BIG; below its limit everything reaches the job."""
    error = refused(["/bin/true", "x" * 131072], **fields)
    assert (error.errno, error.stage) == (errno.E2BIG, "EXEC")
    assert refused(["/bin/true"], env={f"V{i}": "y" * 65536 for i in range(100)}, **fields).errno == errno.E2BIG
    longest = "x" * 131071  # MAX_ARG_STRLEN less the NUL
    output, ended = output_of(["/bin/echo", "-n", *[longest] * 8], **fields)
    assert ended.succeeded
    assert output == b" ".join([longest.encode()] * 8)


@BOTH_ROUTES
def test_file_open_for_writing(tmp_path: Path, fields: dict[str, Any]) -> None:
    """ETXTBSY for as long as it lasts, bounded; a writer that lets go within that time, here at the second try, is no failure."""
    path = tmp_path / "program"
    path.write_bytes(Path("/bin/true").read_bytes())
    path.chmod(0o755)

    def body() -> None:
        with path.open("r+b") as writer:
            assert refused([path], **fields).errno == errno.ETXTBSY
            with held_at("execve", lambda _: writer.close(), passed=1):
                assert wait_end(spawn(SpawnPlan(argv=[path], **fields))).succeeded

    in_child(body)


def test_script_written_and_run_at_once_by_many_threads(tmp_path: Path) -> None:
    """A sibling between fork and exec still holds the write descriptor: never a job failure."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                path = tmp_path / f"job-{number}-{turn}"
                path.write_bytes(b"#!/bin/sh\nexit 0\n")
                path.chmod(0o755)
                assert wait_end(spawn(SpawnPlan(argv=[path]))).succeeded
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(("name", "stage"), [("stdin", "STDIN"), ("stdout", "STDOUT"), ("stderr", "STDERR"), ("cwd", "CWD")])
def test_path_that_cannot_be_opened_is_named(name: str, stage: str) -> None:
    """Errno, stage and path at once, not a timeout."""
    fields: dict[str, Any] = {name: "/no/such/folder/file"}
    error = refused(["/bin/true"], **fields)
    assert (error.errno, error.stage) == (errno.ENOENT, stage)
    assert "/no/such/folder/file" in str(error)


def test_closed_descriptors_are_refused() -> None:
    """As stdio before the clone, as a passed one in the child."""
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    os.close(write_fd)
    assert (refused(["/bin/true"], stdout=write_fd).stage, refused(["/bin/true"], stdin=read_fd).stage) == ("STDOUT", "STDIN")
    for fields in ROUTES:
        error = refused(["/bin/true"], pass_fds=[write_fd], **fields)
        assert (error.errno, error.stage) == (errno.EBADF, "DESCRIPTORS")


@DETACH
def test_plain_child_killed_before_exec_is_not_started(*, detach: bool) -> None:
    """A sandbox that kills on setsid(2): the vfork returns as after an exec, the stage says otherwise."""

    def body() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        seccomp.kill_on(_SYS_SETSID)
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        error = refused(["/bin/true"], detach=detach)
        assert (error.errno, error.stage) == (0, "SESSION")
        assert "signal 31" in str(error)
        no_child_is_left()

    in_child(body)


@pytest.mark.needs_cgroup_v2
@DETACH_AND_STATUS
def test_cgroup_that_was_killed_once(cgroup_root: Path, *, detach: bool) -> None:
    """What is born there is killed at birth: found out, and joined by a write instead."""
    with Cgroup.create(cgroup_root / "job") as cgroup:
        (cgroup_root / "job" / "cgroup.kill").write_text("1")
        spawned = spawn(SpawnPlan(argv=["/bin/sleep", "60"], cgroup=cgroup, detach=detach))
        members = cgroup.pids()
        signal.pidfd_send_signal(spawned.pidfd.fileno(), signal.SIGKILL)
        assert (wait_end(spawned).signal, spawned.pid in members) == (9, True)


@pytest.mark.needs_cgroup_v2
def test_frozen_cgroup_does_not_put_the_caller_to_sleep(cgroup_root: Path) -> None:
    """A clone into it would sleep until somebody thaws it."""
    with Cgroup.create(cgroup_root / "job") as cgroup:
        cgroup.freeze()
        error = refused(["/bin/true"], cgroup=cgroup)
        assert (error.errno, error.stage) == (errno.EBUSY, "CGROUP")


@pytest.mark.needs_cgroup_v2
def test_cgroup_on_its_way_to_be_frozen(
    cgroup_root: Path, payload: Callable[..., Payload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all members are frozen yet, so it does not say so; what is born there would be, and the caller would sleep."""
    read = spawn_module._control_file
    # As with a member that sleeps uninterruptibly; those that we can make are frozen by now.
    monkeypatch.setattr(spawn_module, "_control_file", lambda fd, name: read(fd, name).replace(b"frozen 1", b"frozen 0"))
    with Cgroup.create(cgroup_root / "job") as above, Cgroup.create(cgroup_root / "job" / "inner") as cgroup:
        member = payload("hold", cgroup=cgroup_root / "job" / "inner")
        member.wait_ready()
        thaw = threading.Timer(2, above.thaw)
        thaw.start()
        (cgroup_root / "job" / "cgroup.freeze").write_text("1")
        error = refused(["/bin/true"], cgroup=cgroup)
        thaw.cancel()
        thaw.join()
        above.thaw()
        member.release()
        member.wait_exit()
        assert (error.errno, error.stage) == (errno.EBUSY, "CGROUP")


@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_info")
def test_moved_out_of_its_cgroup_right_after_it_has_entered(cgroup_root: Path) -> None:
    """By somebody else, before it runs: a job does not run where it was not meant to. It asks before it enters, and after."""

    def body() -> None:
        plan = SpawnPlan(argv=["true"], cgroup=cgroup)
        moved = held_at("pidfd_open", lambda pid: move(pid, cgroup_root), passed=1)
        with without("clone_into_cgroup"), moved, pytest.raises(SpawnError) as caught:
            spawn(plan)
        assert (caught.value.errno, caught.value.stage) == (errno.EXDEV, "CGROUP")

    with Cgroup.create(cgroup_root / "job") as cgroup:
        in_child(body)


@pytest.mark.needs_cgroup_v2
def test_removed_cgroup(cgroup_root: Path) -> None:
    """Refused at CGROUP, on the route through a clone and on the one through a write."""
    cgroup = Cgroup.create(cgroup_root / "job")
    (cgroup_root / "job").rmdir()
    assert refused(["/bin/true"], cgroup=cgroup).stage == "CGROUP"
    cgroup.close()


@pytest.mark.own_pid_namespace
@pytest.mark.needs_root
@DETACH
def test_full_process_table(*, detach: bool) -> None:
    """EAGAIN at CLONE, the intermediate reaped: as a user whose limit leaves room for one process more."""

    def body() -> None:
        reader()  # the probe of facilities reads files of root
        os.setgroups([])
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
        room = 2 if detach else 1
        resource.setrlimit(resource.RLIMIT_NPROC, (room, room))
        error = refused(["/bin/true"], detach=detach)
        assert (error.errno, error.stage) == (errno.EAGAIN, "CLONE")
        no_child_is_left()

    in_child(body)


@pytest.mark.parametrize("mask", ["", "close_range"])
def test_hundreds_of_descriptors_are_sealed(mask: str) -> None:
    """More than one look at the list of them tells."""
    opened = [fcntl.fcntl(0, fcntl.F_DUPFD, 100) for _ in range(300)]
    try:
        with without(mask):
            for fields in ROUTES:
                assert set(output_of(["/bin/ls", "/proc/self/fd"], **fields)[0].split()) == {b"0", b"1", b"2", b"3"}
    finally:
        for fd in opened:
            os.close(fd)


def test_failed_detached_job_is_nobodys_to_reap() -> None:
    """Its parent has reaped it when spawn returns: the init of a container may reap nobody."""

    def body() -> None:
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        launcher = os.fork()
        if launcher == 0:
            refused(["/no/such/program"], detach=True)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]) == 7
        no_child_is_left()

    in_child(body)


def test_nothing_of_the_launcher_is_inherited_by_accident() -> None:
    """The launcher's own descriptors, inheritable or not, end at the clone; only passed ones arrive, under their numbers."""
    read_fd, write_fd = os.pipe()
    high = fcntl.fcntl(write_fd, fcntl.F_DUPFD, 200)
    for fields in ROUTES:
        output, _ = output_of(["/bin/ls", "/proc/self/fd"], pass_fds=[high], **fields)
        assert output.split() == [b"0", b"1", b"2", str(high).encode(), b"3"] or set(output.split()) == {
            *(b"0", b"1", b"2", b"3"),
            str(high).encode(),
        }
    for fd in (read_fd, write_fd, high):
        os.close(fd)


def test_start_ticks_are_those_of_proc() -> None:
    """However they were found out: by the clock, or by the child itself where a tick passed meanwhile."""
    for turn in range(60):
        read_fd, write_fd = os.pipe()
        spawned = spawn(SpawnPlan(argv=["/bin/cat"], stdin=read_fd, detach=turn % 2 == 1, **ROUTES[turn % 4 // 2]))
        os.close(read_fd)
        fields = Path(f"/proc/{spawned.pid}/stat").read_bytes().rpartition(b")")[2].split()
        assert spawned.identity.start_ticks == int(fields[19])
        os.close(write_fd)
        wait_end(spawned)


def test_spawned_says_what_was_done() -> None:
    """Whose child, which containment, a full identity."""
    for detach in (False, True):
        spawned: Spawned = spawn(SpawnPlan(argv=["/bin/true"], detach=detach))
        assert (spawned.reaped_by.value, spawned.containment.value) == ("init" if detach else "caller", "process group")
        assert spawned.identity.pid == spawned.pidfd.pid == spawned.pid
        wait_end(spawned)
