"""The shipped unit of the step host under systemd: where the host stands, and what is left alone whatever is done to it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc import CgroupLimits, ExitSource, Liveness, Pidfd, RuntimeId
from spurproc.core.cgroup.folder import process_path
from spurproc.core.cgroup.root import ROOT_VARIABLE
from spurproc.proto.host_folder import HOST_PREFIX, HOST_SOCKET_NAME
from spurproc.version import VERSION
from tests.e2e.test_shipped_units import UNITS
from tests.pace import at_this_pace, readable
from tests.steps import WAIT_S, Gate, Steps

_UNIT = "spurstepd.service"
_INSTALLED = Path("/run/systemd/system") / _UNIT
_STATE = Path("/var/lib/spurproc-test-unit")
_SOCKET = _STATE / "steps" / f"{HOST_PREFIX}{VERSION}" / HOST_SOCKET_NAME
_CGROUP = Path("/sys/fs/cgroup/system.slice") / _UNIT
_LIMIT_BYTES = 64 << 20


def systemctl(*arguments: str) -> int:
    """Its exit code."""
    return subprocess.run(["systemctl", *arguments], check=False, timeout=at_this_pace(100)).returncode


def shown(name: str) -> str:
    """A property of the unit."""
    command = ["systemctl", "show", f"--property={name}", "--value", _UNIT]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def wait_listening() -> None:
    """Type=exec says only that a program was started, and a watch of the folder does not tell of a socket."""
    deadline = time.monotonic() + at_this_pace(60)
    while not _SOCKET.exists():
        assert time.monotonic() < deadline
        select.poll().poll(50)


def stop_as_a_shutdown() -> None:
    """Which alone may."""
    allowed = _INSTALLED.with_name(f"{_UNIT}.d") / "stop.conf"
    allowed.parent.mkdir(exist_ok=True)
    allowed.write_text("[Unit]\nRefuseManualStop=no\n")
    systemctl("daemon-reload")
    systemctl("stop", _UNIT)
    shutil.rmtree(allowed.parent)


@pytest.fixture
def unit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed with the programs of this run, started; nothing of it is left at the end."""
    program = Path(sys.executable).with_name("spurstepd")
    text = (UNITS / _UNIT).read_text(encoding="utf-8").replace("/usr/bin/spurstepd", str(program))
    text = text.replace("/var/lib/spurd", str(_STATE)).replace("StateDirectory=spurd", f"StateDirectory={_STATE.name}")
    _INSTALLED.parent.mkdir(exist_ok=True)
    _INSTALLED.write_text(text, encoding="utf-8")
    monkeypatch.setenv(ROOT_VARIABLE, str(_CGROUP))
    try:
        systemctl("daemon-reload")
        assert systemctl("start", _UNIT) == 0
        wait_listening()
        yield
    finally:
        stop_as_a_shutdown()
        _INSTALLED.unlink()
        systemctl("daemon-reload")
        shutil.rmtree(_STATE)


def test_steps_of_the_unit_are_limited_and_end_with_the_machine_alone(unit: None, tmp_path: Path) -> None:
    """The host stands in a leaf, so memory is limited below it. By hand it is not stopped, and its death ends nobody else."""
    host = int(shown("MainPID"))
    assert process_path(host) == f"/system.slice/{_UNIT}/supervisors"
    gate = Gate(tmp_path / "gate")
    with Steps(_STATE / "steps") as steps, Pidfd.open(host) as held:
        limits = CgroupLimits(memory_max_bytes=_LIMIT_BYTES)
        step = steps.launch(gate.script("exit 7"), runtime_id=RuntimeId(100, 1, 0), cgroup_limits=limits)
        descriptor = steps.descriptor_of(100, 1, 0)
        assert descriptor.host.pid == host
        assert descriptor.cgroup is not None
        assert Path(descriptor.cgroup.path).is_relative_to(_CGROUP / "steps")
        assert (Path(descriptor.cgroup.path) / "memory.max").read_text() == f"{_LIMIT_BYTES}\n"
        assert systemctl("stop", _UNIT) != 0
        assert systemctl("restart", _UNIT) != 0
        assert held.liveness() is Liveness.ALIVE
        signal.pidfd_send_signal(held.fileno(), signal.SIGKILL)
        assert readable(held.fileno(), 10)
        assert steps.launch(["sh", "-c", "exit 4"]).wait(WAIT_S, completed=True).code == 4
        assert step.status().liveness.liveness is Liveness.ALIVE
        assert shown("ActiveState") == "active"
        stop_as_a_shutdown()
        end = step.wait(WAIT_S, completed=True)
        assert (end.signal, end.source) == (signal.SIGTERM, ExitSource.WAITED)
    assert not os.path.isdir(_CGROUP)
