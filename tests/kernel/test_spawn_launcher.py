"""What a launcher is: a subreaper, one whose static program is out of reach, one that names an impossible timeout."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.process.identity import reader
from spurproc.core.spawn import program
from spurproc.core.spawn.spawn import SpawnPlan, spawn
from spurproc.errors import InvalidArgument, SpawnError, Unsupported
from tests.spawning import ROUTES, in_child, no_child_is_left, wait_end

_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWPID = 0x20000000


def refused(argv: list[Any], **fields: Any) -> SpawnError:
    """The SpawnError that starting `argv` raises."""
    with pytest.raises(SpawnError) as caught:
        spawn(SpawnPlan(argv=argv, **fields))
    return caught.value


def test_detached_job_of_a_subreaper_is_its_child() -> None:
    """Who waits for it is said truly: nobody else would reap it."""

    def body() -> None:
        assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        for fields in ROUTES:
            spawned = spawn(SpawnPlan(argv=["/bin/true"], detach=True, **fields))
            assert spawned.reaped_by.value == "caller"
            assert wait_end(spawned).source.value == "waited"
            refused(["/no/such/program"], detach=True, **fields)
        no_child_is_left()

    in_child(body)


def _program_at(path: Path) -> None:
    program.PROGRAM_PATH = str(path)
    program._held = None


def test_static_program_that_cannot_be_used(tmp_path: Path) -> None:
    """Missing, not executable, no room for a descriptor: each is told apart, with the path."""

    def body() -> None:
        _program_at(tmp_path / "spurproc-exec")
        with pytest.raises(Unsupported, match="built without"):
            spawn(SpawnPlan(argv=["/bin/true"], umask=0))
        (tmp_path / "spurproc-exec").touch(0o644)
        error = refused(["/bin/true"], umask=0)
        assert (error.errno, error.stage) == (errno.EACCES, "PROGRAM")
        assert "spurproc-exec" in str(error)

    in_child(body)


@pytest.mark.parametrize("replaced", [True, False], ids=["by another file", "by nothing"])
def test_descriptor_of_the_static_program_that_others_closed(*, replaced: bool) -> None:
    """A daemoniser closes what it does not know, and the number is given away: never executed, nor taken back."""

    def body() -> None:
        number = program.program_fd()
        another = os.open("/bin/sh", os.O_RDONLY)
        os.close(number)
        if replaced:
            os.dup2(another, number)
        assert wait_end(spawn(SpawnPlan(argv=["/bin/true"], umask=0))).succeeded
        if replaced:
            assert os.path.sameopenfile(another, number)

    in_child(body)


def test_no_descriptor_for_the_static_program() -> None:
    """At its first use: EMFILE is no reason to call the package incomplete."""

    def body() -> None:
        reader()
        seen = set()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        lowest = os.dup(0)
        os.close(lowest)
        for room in range(12):
            program._held = None
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, hard))
            try:
                wait_end(spawn(SpawnPlan(argv=["/bin/true"], umask=0)))
            except SpawnError as error:
                seen.add(error.errno)
        assert seen == {errno.EMFILE}

    in_child(body)


@pytest.mark.parametrize("timeout_s", [-1, -0.001, float("nan"), True, "5"])
def test_what_is_no_timeout(timeout_s: Any) -> None:
    """Refused before anything is started."""
    with pytest.raises(InvalidArgument, match="timeout_s"):
        spawn(SpawnPlan(argv=["/bin/true"]), timeout_s=timeout_s)


@pytest.mark.parametrize("timeout_s", [1e9, float("inf"), 1 << 100])
def test_timeout_beyond_what_poll_can_count(timeout_s: float) -> None:
    assert wait_end(spawn(SpawnPlan(argv=["/bin/true"]), timeout_s=timeout_s)).succeeded


@pytest.mark.needs_root
def test_detached_job_in_a_pid_namespace_that_has_no_init_yet() -> None:
    """After unshare(CLONE_NEWPID) the intermediate would be its init and end it: refused, not started to be killed."""

    def body() -> None:
        reader()
        assert ctypes.CDLL(None).unshare(_CLONE_NEWPID) == 0
        error = refused(["/bin/true"], detach=True)
        assert (error.errno, error.stage) == (errno.EOPNOTSUPP, "CLONE")

    in_child(body)
