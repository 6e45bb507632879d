"""Each field of a plan does what it says, exactly, or the start fails at its stage."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import resource
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import reader
from spurproc.core.spawn.program import PROGRAM_PATH
from spurproc.core.spawn.spawn import SpawnPlan, SpawnStage, begin, spawn
from spurproc.core.spawn.starting import read_progress
from spurproc.errors import SpawnError
from tests import capabilities
from tests.spawning import DETACH, ROUTES, in_child, output_of, read_to_end, status_fields, wait_end
from tests.syscall_watch import held_at

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
STATUS = ["/bin/cat", "/proc/self/status"]


def status_of(**fields: Any) -> dict[str, str]:
    output, ended = output_of(list(STATUS), **fields)
    assert ended.succeeded
    return status_fields(output)


def refused(**fields: Any) -> SpawnError:
    with pytest.raises(SpawnError) as caught:
        spawn(SpawnPlan(argv=["/bin/true"], **fields))
    return caught.value


@pytest.mark.needs_root
def test_uid_without_an_entry_has_no_group_of_ours() -> None:
    """All four of each kind are the job's; no supplementary group is left."""
    os.setgroups([0, 4, 27])
    try:
        status = status_of(user=54321)
    finally:
        os.setgroups([0])
    assert (status["Uid"].split(), status["Gid"].split(), status["Groups"]) == (["54321"] * 4, ["54321"] * 4, "")


@pytest.mark.needs_root
def test_user_brings_its_groups() -> None:
    """By name or by number; `group` and `groups` override."""
    entry = pwd.getpwnam("nobody")
    expected = sorted(os.getgrouplist("nobody", entry.pw_gid))
    for user in ("nobody", entry.pw_uid):
        status = status_of(user=user)
        assert (status["Uid"].split()[0], status["Gid"].split()[0]) == (str(entry.pw_uid), str(entry.pw_gid))
        assert [int(group) for group in status["Groups"].split()] == expected
    status = status_of(user="nobody", group=77, groups=["daemon", 5, 5])
    assert (status["Gid"].split(), status["Groups"].split()) == (["77"] * 4, ["1", "5"])


@pytest.mark.needs_root
def test_privileges_end_with_the_user() -> None:
    """No capability survives the change of uid."""
    status = status_of(user="nobody")
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}


@pytest.mark.needs_root
def test_privileges_of_a_launcher_that_is_a_user_end_with_the_user() -> None:
    """A service with ambient CAP_SETUID: the kernel drops nothing between two uids that are not 0."""

    def body() -> None:
        reader()
        capabilities.become_user_with(54321, capabilities.SETUID, capabilities.SETGID)
        for user in (54322, 54321):
            status = status_of(user=user, groups=[])
            assert status["Uid"].split() == [str(user)] * 4
            assert {status[name] for name in capabilities.SETS} == {"0" * 16}

    in_child(body)


@pytest.mark.needs_root
def test_unprivileged_caller_may_name_itself() -> None:
    """The user database counts the primary group among the supplementary ones, a container does not: no difference to anybody."""
    entry = pwd.getpwnam("nobody")
    for groups in ([], [entry.pw_gid], [entry.pw_gid, entry.pw_gid]):

        def body(groups: list[int] = groups) -> None:
            reader()
            os.setgroups(groups)
            os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
            os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
            assert status_of(user="nobody")["Uid"].split() == [str(entry.pw_uid)] * 4
            assert refused(user="nobody", groups=[5]).stage == "GROUPS"

        in_child(body)


@pytest.mark.needs_root
def test_unprivileged_caller_is_refused_and_never_runs_as_another() -> None:
    """EPERM at the first of the three that fails; its own ids and groups are fine."""

    def body() -> None:
        reader()
        os.setgroups([5])
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
        assert (refused(user=54322, groups=[5]).errno, refused(user=54322, groups=[5]).stage) == (errno.EPERM, "GID")
        assert refused(user=54322, group=54321, groups=[5]).stage == "UID"
        assert refused(user=54321).stage == "GROUPS"
        assert status_of(user=54321, groups=[5])["Groups"] == "5"

    in_child(body)


def test_umask_cwd_and_paths(tmp_path: Path) -> None:
    """A relative path starts in the job's cwd; files are made under the job's umask and appended to."""
    plan = SpawnPlan(argv=["sh", "-c", "pwd; umask; echo error >&2"], cwd=tmp_path, umask=0o077, stdout="out", stderr="out")
    for _ in range(2):
        assert wait_end(spawn(plan)).succeeded
    assert (tmp_path / "out").read_text() == f"{tmp_path}\n0077\nerror\n" * 2
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


@pytest.mark.needs_root
def test_paths_are_opened_as_the_user(open_folder: Path) -> None:
    """A folder that the user may not enter, a file it may not write, a file it makes."""
    (open_folder / "shut").mkdir(0o700)
    error = refused(user="nobody", cwd=open_folder / "shut")
    assert (error.errno, error.stage) == (errno.EACCES, "CWD")
    (open_folder / "ours").touch(0o600)
    assert refused(user="nobody", stdout=open_folder / "ours").stage == "STDOUT"
    assert wait_end(spawn(SpawnPlan(argv=["/bin/true"], user="nobody", stdout=open_folder / "theirs"))).succeeded
    assert (open_folder / "theirs").stat().st_uid == pwd.getpwnam("nobody").pw_uid


def test_stdin_from_a_path(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"given\n")
    assert output_of(["cat"], stdin=tmp_path / "input")[0] == b"given\n"


def test_a_terminal_as_stdin_does_not_become_the_controlling_one() -> None:
    """O_NOCTTY: a session leader that opens a terminal would else own it, and get its signals."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    os.close(slave)
    spawned = spawn(SpawnPlan(argv=["sh", "-c", ": </dev/tty"], stdin=name))
    assert wait_end(spawned).code != 0
    os.close(master)


def test_limits_are_exact() -> None:
    """As set, unlimited as -1; one that the kernel refuses fails at LIMITS."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    output, _ = output_of(
        ["cat", "/proc/self/limits"], limits={resource.RLIMIT_NOFILE: (100, min(200, hard)), resource.RLIMIT_CORE: (0, 0)}
    )
    rows = {line[:25].strip(): line[25:].split()[:2] for line in output.decode().splitlines()}
    assert rows["Max open files"] == ["100", "200"]
    assert rows["Max core file size"] == ["0", "0"]
    if os.geteuid() == 0:
        output, _ = output_of(["sh", "-c", "ulimit -c"], limits={resource.RLIMIT_CORE: (-1, -1)})
        assert output == b"unlimited\n"
    error = refused(limits={resource.RLIMIT_NOFILE: (1 << 40, 1 << 40)})
    assert (error.errno, error.stage) == (errno.EPERM, "LIMITS")
    assert refused(limits={200: (1, 1)}).errno == errno.EINVAL


def test_three_descriptors_are_enough_for_three_files(payload_program: Callable[[str], Path]) -> None:
    """The files of 0-2 land on their numbers; a limit of two leaves no room for the third."""
    places: dict[str, Any] = {"stdin": "/dev/null", "stdout": "/dev/null", "stderr": "/dev/null"}
    static = SpawnPlan(argv=[PROGRAM_PATH], limits={resource.RLIMIT_NOFILE: (3, 3)}, **places)
    assert wait_end(spawn(static)).code == 127  # it has no plan: what counts is that it was exec'd
    error = refused(limits={resource.RLIMIT_NOFILE: (2, 2)}, **places)
    assert (error.errno, error.stage) == (errno.EMFILE, "STDERR")


@pytest.mark.own_pid_namespace
@pytest.mark.needs_root
def test_user_with_as_many_processes_as_allowed() -> None:
    """EAGAIN from execve(2) is given half a second to pass, as from a clone; here it has passed at the second try."""
    user = 100_000 + os.stat("/proc/self/ns/pid").st_ino % 1_000_000_000  # whom no other run on the machine has processes of
    plan = SpawnPlan(argv=["/bin/true"], user=user, groups=[], limits={resource.RLIMIT_NPROC: (1, 1)})

    def body() -> None:
        read_fd, write_fd = os.pipe()
        others = [spawn(SpawnPlan(argv=["/bin/cat"], stdin=read_fd, user=user, groups=[])) for _ in range(2)]
        os.close(read_fd)

        def end_others(_: int) -> None:
            os.close(write_fd)
            for other in others:
                wait_end(other)

        with pytest.raises(SpawnError, match="EXEC") as caught:
            spawn(plan)
        assert caught.value.errno == errno.EAGAIN
        with held_at("execve", end_others, passed=1):
            assert wait_end(spawn(plan)).succeeded

    in_child(body)


def test_affinity_is_exact() -> None:
    """The ids asked for, not the caller's mask; a CPU that does not exist is an error, not the rest of the list."""
    permitted = os.sched_getaffinity(0)
    for cpu in permitted:
        assert status_of(affinity=[cpu])["Cpus_allowed_list"] == str(cpu)
    error = refused(affinity=[min(permitted), 4000])
    assert (error.errno, error.stage) == (errno.EINVAL, "AFFINITY")
    assert refused(affinity=[4000]).stage == "AFFINITY"


def _oom_score_adj(**fields: Any) -> int:
    return int(output_of(["cat", "/proc/self/oom_score_adj"], **fields)[0])


def test_oom_score_adj_is_set_or_inherited() -> None:
    """Exactly what the plan says; None is the launcher's own."""

    def body() -> None:
        Path("/proc/self/oom_score_adj").write_text("300")
        assert [_oom_score_adj(), _oom_score_adj(oom_score_adj=0), _oom_score_adj(oom_score_adj=1000)] == [300, 0, 1000]

    in_child(body)


@pytest.mark.own_pid_namespace(mount=True)
def test_protection_from_the_oom_killer_is_not_inherited(tmp_path: Path) -> None:
    """A launcher at -900: its job is at 0. A file over ours says so, for nobody here may go below 0; really we are at 300."""
    own = Path(f"/proc/{os.getpid()}/oom_score_adj")
    own.write_text("300")
    (tmp_path / "protected").write_text("-900\n")
    subprocess.run(["mount", "--bind", str(tmp_path / "protected"), str(own)], check=True)
    try:
        assert [_oom_score_adj(), _oom_score_adj(oom_score_adj=700)] == [0, 700]
    finally:
        subprocess.run(["umount", str(own)], check=True)


@pytest.mark.needs_root
def test_lowering_the_oom_score_without_privilege_is_loud() -> None:
    def body() -> None:
        reader()
        os.setresuid(54321, 54321, 54321)
        error = refused(oom_score_adj=-1)
        assert (error.errno, error.stage) == (errno.EACCES, "OOM_SCORE_ADJ")

    in_child(body)


def test_no_new_privs() -> None:
    assert [status_of(no_new_privs=value)["NoNewPrivs"] for value in (False, True)] == ["0", "1"]


@pytest.mark.needs_cgroup_v2
@DETACH
def test_cgroup_with_each_way_in(cgroup_root: Path, *, detach: bool) -> None:
    """The job's first own instruction runs in its cgroup; the caller sees whether it was born there."""
    with Cgroup.create(cgroup_root / "job") as cgroup:
        read_fd, write_fd = os.pipe()
        spawned = spawn(SpawnPlan(argv=["cat", "/proc/self/cgroup"], cgroup=cgroup, stdout=write_fd, detach=detach))
        os.close(write_fd)
        assert read_to_end(read_fd).decode().splitlines()[-1].endswith("/job")
        os.close(read_fd)
        assert spawned.born_in_cgroup == bool(reader().facilities & 128)
        assert spawned.containment.value == "cgroup"
        wait_end(spawned)
        cgroup.wait_empty(5)


def test_environment_reaches_the_job_byte_for_byte(payload_program: Callable[[str], Path]) -> None:
    """Not text, empty, twice, without a name: raw entries arrive as they are and in order."""
    entries = [b"A=1", b"A=2", b"B=", b"\xff\xfe=\x80", b"=x", b"", b"no equals sign", b"C=a=b"]
    for fields in ROUTES:
        output, _ = output_of([payload_program("probe")], env=entries, **fields)
        seen = [line.partition(b" ")[2] for line in output.splitlines() if line.startswith(b"environment-")]
        assert seen == entries


def test_inherited_environment_keeps_all_but_what_is_ours(payload_program: Callable[[str], Path]) -> None:
    """NOTIFY_SOCKET and its kin are the launcher's; an explicit environment may hold them."""
    os.environ.update({"NOTIFY_SOCKET": "/x", "LISTEN_FDS": "1", "INVOCATION_ID": "y", "SPURPROC_TEST_KEPT": "\udcff"})
    try:
        output, _ = output_of([payload_program("probe")])
    finally:
        for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "INVOCATION_ID", "SPURPROC_TEST_KEPT"):
            del os.environ[name]
    assert b"SPURPROC_TEST_KEPT=\xff" in output
    assert not any(name in output for name in (b"NOTIFY_SOCKET", b"LISTEN_FDS", b"INVOCATION_ID"))
    assert b"NOTIFY_SOCKET=/mine" in output_of([payload_program("probe")], env={"NOTIFY_SOCKET": "/mine"})[0]


def test_program_is_searched_in_the_path_of_the_job(tmp_path: Path) -> None:
    """First match that can be executed; one that may not be is passed over and remembered."""
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "tool").chmod(mode)
    path = f"/nonexistent:{tmp_path}/first:{tmp_path}/second"
    for fields in ROUTES:
        assert output_of(["tool"], env={"PATH": path}, **fields)[0] == b"second\n"
        with pytest.raises(SpawnError) as caught:
            spawn(SpawnPlan(argv=["tool"], env={"PATH": f"{tmp_path}/first:/nonexistent"}, **fields))
        assert caught.value.errno == errno.EACCES
        too_long = f"/{'x' * 5000}:{tmp_path}/second"
        assert output_of(["tool"], env={"PATH": too_long}, **fields)[0] == b"second\n"


def test_passed_descriptors_keep_their_numbers() -> None:
    """stdout=2 and stderr=1 of the caller do not overwrite each other; a source that is its own target works."""

    def body() -> None:
        ends = [os.pipe() for _ in range(3)]
        os.dup2(ends[0][1], 1)
        os.dup2(ends[1][1], 2)
        for fields in ROUTES:
            plan = SpawnPlan(
                argv=["bash", "-c", f"echo out; echo err >&2; echo three >&{ends[2][1]}"],
                stdout=2,
                stderr=1,
                pass_fds=[ends[2][1]],
                **fields,
            )
            assert wait_end(spawn(plan)).succeeded
            assert [os.read(end[0], 100) for end in ends] == [b"err\n", b"out\n", b"three\n"]
            assert wait_end(spawn(SpawnPlan(argv=["echo", "same"], stdout=1, **fields))).succeeded
            assert os.read(ends[0][0], 100) == b"same\n"

    in_child(body)


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.own_pid_namespace
def test_target_user_that_stops_everything_cannot_stop_the_launcher() -> None:
    """`kill -STOP -1` as the user, from before our spawn until after it: a setuid in shared memory would let it reach us."""
    storm = spawn(SpawnPlan(argv=["sh", "-c", "while :; do kill -STOP -1; done"], user=54321, groups=[]))
    try:
        for _ in range(30):
            gate_read, gate_write = os.pipe()
            starting, spawned = begin(SpawnPlan(argv=["/bin/true"], user=54321, groups=[]), gate_fd=gate_read)
            os.close(gate_read)
            assert starting.channel is not None
            assert read_progress(starting.channel).stage <= SpawnStage.GATE
            starting.abandon()
            os.close(gate_write)
            assert spawned.identity.pid > 0
            assert status_fields(Path("/proc/self/status").read_bytes())["State"].startswith("R")
    finally:
        storm.pidfd.send_signal(signal.SIGKILL)
        wait_end(storm)


@pytest.mark.needs_root
def test_credential_change_leaves_the_launcher_dumpable() -> None:
    """The flag belongs to the memory: a change of credentials in memory shared with us would clear it."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0) == 0  # another test may have changed our credentials
    for detach in (False, True):
        wait_end(spawn(SpawnPlan(argv=["/bin/true"], user=54321, detach=detach)))
    assert libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 1
