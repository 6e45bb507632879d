"""The units that are shipped: systemd takes them, and the step host's stands where no controller is in its way."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from spurproc import ExitSource
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.running_unit import UnitPlace, UnitVerdict, judge_unit
from spurproc.core.cgroup.root import ROOT_VARIABLE
from tests.meta.repository import ROOT
from tests.pace import readable
from tests.steps import WAIT_S, Steps

UNITS = ROOT / "packaging" / "systemd"
NAMES = ("spurd.service", "spurstepd.service")


def settings(name: str) -> dict[str, list[str]]:
    """What a unit says, by key, in its order. Source: systemd.syntax(7)."""
    text = (UNITS / name).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key, []).append(value)
    return found


def one(name: str, key: str) -> str:
    (value,) = settings(name)[key]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_systemd_takes_the_units(name: str, tmp_path: Path) -> None:
    """Without a word, where it is there to be asked."""
    verify = shutil.which("systemd-analyze")
    for each in NAMES:
        program = tmp_path / each.removesuffix(".service")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (tmp_path / each).write_text((UNITS / each).read_text().replace("/usr/bin/spur", f"{tmp_path}/spur"))
    if verify is not None:
        done = subprocess.run([verify, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False)
        said = [line for line in done.stderr.splitlines() if tmp_path.name in line]
        assert (done.returncode, said) == (0, [])


def _answering(answer: Mapping[str, str]) -> Callable[[UnitPlace], Mapping[str, str]]:
    return lambda _place: answer


def test_a_stop_of_the_agents_unit_ends_no_step() -> None:
    """By the very check that an agent makes of the unit that it runs in, with what the unit says, wherever its steps stand."""
    place = UnitPlace(name="spurd.service", path="/system.slice/spurd.service", of_user=False)
    answer = {"LoadState": "loaded", "KillMode": one("spurd.service", "KillMode")}
    for supervisors in (None, "/system.slice/spurd.service/spurproc/supervisors", "/system.slice/spurstepd.service/supervisors"):
        assert judge_unit(place, supervisors, _answering(answer)).verdict is UnitVerdict.SPARES


def test_the_hosts_unit_outlives_its_host_and_is_not_stopped_by_mistake() -> None:
    """What comes of each of these is shown in a machine with systemd: tests/vm/machine/test_shipped_units.py."""
    says = settings("spurstepd.service")
    assert says["RefuseManualStop"] == says["RemainAfterExit"] == says["Delegate"] == ["yes"]
    assert one("spurstepd.service", "ExecStart").startswith("-/")
    assert "Restart" not in says


def test_the_agents_unit_starts_it_again_but_where_that_is_of_no_use() -> None:
    """A mistake in the configuration is not tried for ever; a quarantine is, until it is over."""
    assert one("spurd.service", "Restart") == "always"
    assert one("spurd.service", "RestartPreventExitStatus") == str(ExitCode.MISUSED.value)
    assert one("spurd.service", "Type") == "notify"
    assert one("spurd.service", "StateDirectoryMode") == "0711"


def test_both_units_mean_the_same_cgroup() -> None:
    """That of the step host's unit."""
    for name in NAMES:
        assert one(name, "Environment") == f"{ROOT_VARIABLE}=/sys/fs/cgroup/system.slice/spurstepd.service"


@pytest.fixture
def unit_cgroup(cgroup_root: Path) -> Path:
    """What systemd makes of a unit."""
    path = cgroup_root / "spurstepd.service"
    path.mkdir()
    return path


@pytest.fixture
def host(unit_cgroup: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command of the step host's unit, started as systemd does: in the unit's own cgroup. Ready."""
    command = one("spurstepd.service", "ExecStart").removeprefix("-").replace(f"${{{ROOT_VARIABLE}}}", str(unit_cgroup))
    read, write = os.pipe()
    stepd = f"{Path(sys.executable).with_name('spurstepd')} --ready-fd {write}"
    command = command.replace("/usr/bin/spurstepd", stepd).replace("/var/lib/spurd/steps", f"{tmp_path}/steps")
    before = one("spurstepd.service", "ExecStartPre").replace("/var/lib/spurd/steps", f"{tmp_path}/steps")
    subprocess.run(shlex.split(before), check=True)
    enter = f"echo 0 >{unit_cgroup}/cgroup.procs && exec {shlex.join(shlex.split(command))}"
    environment = os.environ | {ROOT_VARIABLE: str(unit_cgroup)}
    with subprocess.Popen(["sh", "-c", enter], pass_fds=(write,), env=environment) as process:
        try:
            os.close(write)
            assert readable(read, 30)
            assert os.read(read, 1) == b"\0"
            yield process
        finally:
            os.close(read)
            process.terminate()


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_the_host_of_the_unit_stands_in_a_leaf_and_serves(
    host: subprocess.Popen[bytes], unit_cgroup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left in the unit's own cgroup, so that controllers can be handed down; steps are launched by this host."""
    monkeypatch.setenv(ROOT_VARIABLE, str(unit_cgroup))
    assert (unit_cgroup / "cgroup.procs").read_text() == ""
    assert (unit_cgroup / "supervisors" / "cgroup.procs").read_text().split() == [str(host.pid)]
    with Steps(tmp_path / "steps") as steps:
        step = steps.launch(["sh", "-c", "exit 3"])
        end = step.wait(WAIT_S, completed=True)
        assert (end.code, end.source) == (3, ExitSource.WAITED)
        descriptor = steps.descriptor_of(step.runtime_id.job_id, step.runtime_id.run_attempt, step.runtime_id.step_id)
        assert descriptor.host.pid == host.pid
        assert descriptor.cgroup is not None
        assert Path(descriptor.cgroup.path).is_relative_to(unit_cgroup / "steps")
        assert host.poll() is None
