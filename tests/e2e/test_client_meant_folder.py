"""`launch` into the state folder that is meant: one that was removed or replaced under its owner gets no file, and no process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import AlreadyGone, NotPermitted, RuntimeId, SpawnPlan, SpurprocError, Step, StepSpec, launch
from spurproc.client import launch as launch_module
from spurproc.client.host_link import PROGRAM_VARIABLE
from tests.steps import WAIT_S, Steps

_SPEC = StepSpec(runtime_id=RuntimeId(7, 1, 0), plan=SpawnPlan(argv=["true"]))


def _inode(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def _launch(path: Path, inode: tuple[int, int]) -> Step:
    return launch(_SPEC, path, folder_inode=inode)


def test_the_one_that_is_meant_is_used(tmp_path: Path) -> None:
    """The folder of its steps is made in it."""
    steps = Steps(tmp_path / "state")
    steps.path.mkdir(mode=0o700)
    with steps:
        assert _launch(steps.path, _inode(steps.path)).wait(WAIT_S).code == 0


def test_a_removed_one_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    inode = _inode(path)
    path.rmdir()
    with pytest.raises(AlreadyGone, match="state"):
        _launch(path, inode)
    assert not path.exists()


def test_another_in_its_place_gets_nothing(tmp_path: Path) -> None:
    """The one that was meant stands elsewhere, and gets nothing either."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    inode = _inode(path)
    path.rename(tmp_path / "moved")
    path.mkdir(mode=0o700)
    with pytest.raises(NotPermitted, match="another folder stands there than the one meant"):
        _launch(path, inode)
    assert os.listdir(path) == os.listdir(tmp_path / "moved") == []


def _removed(path: Path) -> None:
    shutil.rmtree(path)


def _replaced(path: Path) -> None:
    path.rename(path.with_name("moved"))
    shutil.rmtree(path.with_name("moved"))
    path.mkdir(mode=0o700)


@pytest.mark.parametrize("spoil", [_removed, _replaced])
def test_one_that_goes_after_the_last_look_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    """All is made through the descriptor of the folder that was looked at."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    publish = launch_module._publish

    def spoilt(*arguments: object) -> object:
        spoil(path)
        return publish(*arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(launch_module, "_publish", spoilt)
    with pytest.raises(AlreadyGone):
        _launch(path, _inode(path))
    assert not path.exists() or os.listdir(path) == []


def test_a_host_serves_the_folder_of_who_started_it_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens a path: what stands there by then gets no file, and the launch fails."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    stepd, program = Path(sys.executable).with_name("spurstepd"), tmp_path / "late"
    program.write_text(f'#!/bin/sh\nmv {path} {tmp_path}/moved\nmkdir -m 700 {path}\nexec {stepd} "$@" 2>>{tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setenv(PROGRAM_VARIABLE, str(program))
    with pytest.raises(SpurprocError):
        _launch(path, _inode(path))
    assert "another folder stands there" in (tmp_path / "said").read_text()
    assert os.listdir(path) == []
