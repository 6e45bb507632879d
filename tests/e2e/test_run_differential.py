"""The probe of the differential test, run by `run` and by a recorder: neither shows in what a job sees of itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitInfo
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from tests.kernel.test_spawn_differential import Differences, differences_from_bare, intended
from tests.spawning import read_to_end

_TIMEOUT_S = 20.0
CONTAINMENTS = pytest.mark.parametrize(
    "containment", [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]
)


def check(differences: Differences, containment: Containment) -> None:
    """The written list, and the cgroup where the job is given one."""
    if containment is Containment.CGROUP:
        ours = differences.pop("cgroup")[1] or []
        assert any(line.startswith(b"0::") and b"/steps/" in line for line in ours)
    assert differences.keys() == intended()


@CONTAINMENTS
def test_a_command_of_run_is_born_like_a_bare_one(payload_program: Callable[[str], Path], containment: Containment) -> None:
    """Through the static program with its gate, or as the child of a keeper."""

    def start(argv: list[Any], environment: list[bytes]) -> tuple[bytes, ExitInfo]:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        try:
            result = run(argv, env=environment, stdout=write_fd, stderr=None, containment=containment)
        finally:
            os.close(write_fd)
        with os.fdopen(read_fd, "rb") as output:
            return read_to_end(output.fileno()), result

    check(differences_from_bare(payload_program("probe"), start), containment)


@CONTAINMENTS
def test_a_recorded_run_is_born_like_a_bare_one(
    payload_program: Callable[[str], Path], tmp_path: Path, containment: Containment
) -> None:
    """As the child of a recorder."""

    def start(argv: list[Any], environment: list[bytes]) -> tuple[bytes, ExitInfo]:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        try:
            plan = SpawnPlan(argv=argv, env=environment, stdout=write_fd)
            recorded = launch_recorded(plan, tmp_path / "run", containment=containment)
        finally:
            os.close(write_fd)
        with recorded, os.fdopen(read_fd, "rb") as output:
            said, info = read_to_end(output.fileno()), recorded.wait(_TIMEOUT_S)
            recorded.terminate()
            recorded.remove()
        return said, info

    check(differences_from_bare(payload_program("probe"), start), containment)
