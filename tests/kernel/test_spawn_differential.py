"""One probe run bare from a clean baseline and run by us: all that it sees of itself is equal, but for a written list."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.exit_info import ExitInfo
from tests.spawning import DETACH_AND_STATUS, output_of, read_to_end

INTENDED = {
    "session": "every job has a session of its own",
    "process-group": "and is the leader of its group",
}
"""What differs from a bare fork and exec in the same place, and why. Nothing else may."""

INTENDED_HERE = {
    "terminal": "a job has no controlling terminal; the tests may",
    "disposition-32": "a job ignores nothing; signals that libc keeps for itself cannot be reset for the bare one",
    "disposition-33": "as 32",
}
"""What may differ beside, where the tests themselves were started from a terminal, or with these ignored (make does so)."""

Differences = dict[str, tuple[list[bytes] | None, list[bytes] | None]]
ARGUMENTS = ["", "a b", "\udcff"]


def _bare(probe: Path, environment: list[bytes]) -> tuple[bytes, int]:
    """Fork and execve from a child that first makes the baseline: default dispositions, empty mask, /dev/null, a pipe."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(probe, write_fd, environment)
        finally:
            os._exit(127)
    os.close(write_fd)
    data = read_to_end(read_fd)
    os.close(read_fd)
    return data, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _become(probe: Path, write_fd: int, environment: list[bytes]) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open("/dev/null", os.O_RDWR)
    for source, target in ((null, 0), (write_fd, 1), (null, 2)):
        os.dup2(source, target)
    os.closerange(3, 1024)
    os.execve(probe, [str(probe), *ARGUMENTS], dict(entry.split(b"=", 1) for entry in environment))


def _facts(output: bytes) -> dict[str, list[bytes]]:
    facts: dict[str, list[bytes]] = {}
    for line in output.splitlines():
        name, _, value = line.partition(b" ")
        facts.setdefault(name.decode(), []).append(value)
    return facts


def intended() -> set[str]:
    """The names that must differ here."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    ignored = int(status["SigIgn"], 16)
    present = {f"disposition-{number}" for number in range(1, 65) if ignored >> (number - 1) & 1}
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
        present.add("terminal")
    return INTENDED.keys() | (INTENDED_HERE.keys() & present)


def _differences(probe: Path, **fields: Any) -> Differences:
    return differences_from_bare(probe, lambda argv, environment: output_of(argv, env=environment, **fields))


def differences_from_bare(probe: Path, start: Callable[[list[Any], list[bytes]], tuple[bytes, ExitInfo]]) -> Differences:
    """What the probe sees of itself, bare and when `start`ed with arguments and environment: stdout and the end."""
    environment = [b"A=1", b"B=\xff\xfe", b"PATH=/bin"]
    bare_output, bare_status = _bare(probe, environment)
    output, ended = start([probe, *ARGUMENTS], environment)
    assert bare_status == ended.returncode == 42
    bare, ours = _facts(bare_output), _facts(output)
    assert len(bare) > 40
    return {name: (bare.get(name), ours.get(name)) for name in bare.keys() | ours.keys() if bare.get(name) != ours.get(name)}


@DETACH_AND_STATUS
def test_plain_job_is_born_like_a_bare_one(payload_program: Callable[[str], Path], *, detach: bool) -> None:
    """Without the static program."""
    assert _differences(payload_program("probe"), detach=detach).keys() == intended()


@DETACH_AND_STATUS
def test_job_through_the_program_is_born_like_a_bare_one(payload_program: Callable[[str], Path], *, detach: bool) -> None:
    """With a cwd that is the same, so that the static program runs and changes nothing."""
    assert _differences(payload_program("probe"), detach=detach, cwd=os.getcwd()).keys() == intended()


@pytest.mark.needs_cgroup_v2
def test_only_the_cgroup_differs_where_one_is_given(payload_program: Callable[[str], Path], cgroup_root: Path) -> None:
    """Born in its cgroup: its own /proc/self/cgroup says so."""
    with Cgroup.create(cgroup_root / "job") as cgroup:
        differences = _differences(payload_program("probe"), cgroup=cgroup)
        assert differences.keys() == intended() | {"cgroup"}
        ours = differences["cgroup"][1] or []
        assert any(line.startswith(b"0::") and line.endswith(b"/job") for line in ours)


@DETACH_AND_STATUS
def test_caller_with_odd_signals_starts_clean_jobs(payload_program: Callable[[str], Path], *, detach: bool) -> None:
    """Blocked, ignored and handled signals of the launcher reach no job."""
    held = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGUSR1)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        for fields in ({}, {"cwd": os.getcwd()}):
            assert _differences(payload_program("probe"), detach=detach, **fields).keys() == intended()
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
