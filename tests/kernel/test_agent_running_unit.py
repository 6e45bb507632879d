"""Which unit of systemd this very process runs in, and how systemd is asked: with real cgroups and real programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from spurproc.agent.node import running_unit
from spurproc.agent.node.running_unit import UnitPlace, UnitVerdict, ask_systemd, find_running_unit, unit_place
from spurproc.core.cgroup.root import CgroupRoot

SERVICE = UnitPlace(name="spurd.service", path="/system.slice/spurd.service", of_user=False)


def nobody_asked(_place: UnitPlace) -> Mapping[str, str]:
    raise AssertionError("asked for nothing")


def kills(_place: UnitPlace) -> Mapping[str, str]:
    return {"Id": "spurd.service", "LoadState": "loaded", "KillMode": "mixed"}


def test_the_whole_way_on_this_machine() -> None:
    """Whatever it is: an answer with a sentence, in time, which agrees with what /proc says."""
    found = find_running_unit(None)
    place = unit_place(Path("/proc/self/cgroup").read_text())
    assert (found.verdict is UnitVerdict.NO_UNIT) == (place is None)
    assert found.sentence


@pytest.mark.needs_cgroup_v2
def test_a_root_of_ours_on_this_machine(cgroup_root: Path, tmp_path: Path) -> None:
    """Its place is told in the kernel's words, as /proc/self/cgroup spells them: outside of a unit that has another."""
    root = CgroupRoot(path=str(cgroup_root / "root"))
    root.prepare()
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/system.slice/spurd.service\n")
    found = find_running_unit(root, ask=nobody_asked, proc=str(tmp_path))
    assert found.verdict is UnitVerdict.SPARES
    unit = "/" + "/".join(cgroup_root.parts[cgroup_root.parts.index(cgroup_root.parent.name) :])
    (tmp_path / "self" / "cgroup").write_text(f"0::{unit}/x.service\n")
    (cgroup_root / "x.service").mkdir()
    inside = CgroupRoot(path=str(cgroup_root / "x.service" / "spurproc"))
    inside.prepare()
    found = find_running_unit(inside, ask=kills, proc=str(tmp_path))
    assert found.verdict is UnitVerdict.KILLS


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name on PATH, to be written by the test; and systemd poses as the init."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(running_unit, "_BOOTED", str(tmp_path))
    program = tmp_path / "systemctl"
    program.touch()
    program.chmod(stat.S_IRWXU)
    return program


def test_systemctl_is_asked_for_the_unit_of_its_manager(systemctl: Path) -> None:
    """By the options that systemctl(1) documents; a unit's name is never taken for one."""
    systemctl.write_text('#!/bin/sh\nfor word; do echo "Argument$((n = n + 1))=$word"; done\n')
    answer = ask_systemd(UnitPlace(name="-x.service", path="/x", of_user=True))
    assert isinstance(answer, Mapping)
    assert list(answer.values()) == [
        "--user",
        "show",
        "--property=Id,LoadState,KillMode,Delegate,SendSIGKILL,Type",
        "--",
        "-x.service",
    ]
    answer = ask_systemd(SERVICE)
    assert isinstance(answer, Mapping)
    assert next(iter(answer.values())) == "show"


def test_systemctl_that_fails_says_why(systemctl: Path) -> None:
    """In one line."""
    systemctl.write_text("#!/bin/sh\necho 'Failed to connect to bus:' >&2; echo ' No medium found' >&2; exit 1\n")
    assert ask_systemd(SERVICE) == "systemctl: Failed to connect to bus: No medium found"


def test_systemctl_that_hangs_is_ended(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it has started."""
    monkeypatch.setattr(running_unit, "_ASK_WITHIN_S", 0.2)
    systemctl.write_text("#!/bin/sh\nsleep 1000 & sleep 1000\n")
    assert ask_systemd(SERVICE) == "systemctl did not answer within 0.2 s"


def test_without_systemctl_there_is_no_answer(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where systemd is not the init, which is looked at first."""
    monkeypatch.setenv("PATH", str(systemctl.parent / "nothing"))
    assert "cannot start 'systemctl'" in str(ask_systemd(SERVICE))
    monkeypatch.setattr(running_unit, "_BOOTED", str(systemctl.parent / "nothing"))
    assert ask_systemd(SERVICE) == "systemd is not the init here"
