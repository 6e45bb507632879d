"""Which folders are taken for a state folder: private ones of ours, however deep; others are refused, and named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import AlreadyGone, NotPermitted, RuntimeId, SpawnPlan, Step, StepSpec, adopt, gc, launch
from tests.steps import WAIT_S, Steps, folder_of

_ID = RuntimeId(1, 1, 0)
_NOBODY = 65534


def _launch(path: Path) -> None:
    launch(StepSpec(runtime_id=_ID, plan=SpawnPlan(argv=["true"])), path)


def _open(path: Path) -> None:
    Step.open(path, _ID)


_USES: list[Callable[[Path], object]] = [_launch, _open, adopt, gc]


def _group_writable(path: Path) -> Path:
    path.chmod(0o770)
    return path


def _foreign(path: Path) -> Path:
    os.chown(path, _NOBODY, _NOBODY)
    return path


def _linked(path: Path) -> Path:
    link = path.with_name("link")
    link.symlink_to(path)
    return link


def _behind_a_link(path: Path) -> Path:
    link = path.with_name("above")
    link.symlink_to(path.parent)
    return link / path.name


def _its_steps_open(path: Path) -> Path:
    (path / "runtime").chmod(0o770)
    return path


@pytest.mark.needs_root
@pytest.mark.parametrize("use", _USES, ids=["launch", "open", "adopt", "gc"])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_group_writable, r"'{}': its mode is 0770, not 0700"),
        (_foreign, rf"'{{}}': it belongs to user {_NOBODY}"),
        (_linked, r"'{}': it is a symbolic link"),
        (_behind_a_link, r"'{}': a symbolic link stands on the way, 'above'"),
        (_its_steps_open, r"'{}/runtime': its mode is 0770, not 0700"),
    ],
)
def test_a_folder_that_others_may_change_is_refused_by_name(
    tmp_path: Path, use: Callable[[Path], object], spoil: Callable[[Path], Path], why: str
) -> None:
    """Before anything is written there, and before anything there is believed."""
    state = tmp_path / "state"
    (state / "runtime").mkdir(mode=0o700, parents=True)
    state.chmod(0o700)
    spoilt = spoil(state)
    with pytest.raises(NotPermitted, match="cannot trust the folder " + why.format(spoilt)):
        use(spoilt)
    assert os.listdir(state / "runtime") == []
    assert os.listdir(state) == ["runtime"]


@pytest.mark.needs_root
def test_a_step_whose_folder_was_opened_to_others_is_refused(steps: Steps) -> None:
    """Every request reads it anew."""
    step = steps.launch(["true"])
    step.wait(WAIT_S, completed=True)
    folder_of(step).chmod(0o777)
    for request in (step.status, step.terminate, step.acknowledge, step.wait, lambda: list(step.events())):
        with pytest.raises(NotPermitted, match=rf"{step.runtime_id}': its mode is 0777"):
            request()
    folder_of(step).chmod(0o700)


@pytest.mark.parametrize("length", [109, 1500])
def test_a_path_may_be_longer_than_a_sockets_address(tmp_path: Path, length: int) -> None:
    """unix(7): 108 bytes. Nothing is cut off, and two folders with the same beginning do not meet."""
    deep = tmp_path
    while len(str(deep)) + 101 < length:
        deep /= "d" * 100
    deep /= "e" * max(1, length - len(str(deep)))
    deep.mkdir(parents=True)
    both = [Steps(deep / "state"), Steps(deep / "state-2")]
    launched = [each.launch(["sh", "-c", f"exit {code}"], start=False) for code, each in enumerate(both)]
    for each, step in zip(both, launched, strict=True):
        assert step.status().supervised
        assert adopt(each.path).steps == (step,)
    for step in launched:
        step.start()
    assert [step.wait(WAIT_S, completed=True).code for step in launched] == [0, 1]
    for each in both:
        each.end_all()


# What works, and what is refused by name, where a state folder cannot be written to; for a child in a mount namespace of its own.
_READ_ONLY = """
import sys
from spurproc import *
state, name = sys.argv[1], RuntimeId.parse(sys.argv[2])
(step,) = adopt(state).steps
status = step.status()
print(status.state.value, status.supervised, step.wait(5, completed=True).code, len(list(step.events())))
print([kept.reason for kept in gc(state).kept])
for act in (
    step.acknowledge,
    lambda: launch(StepSpec(runtime_id=RuntimeId(5, 1, 0), plan=SpawnPlan(argv=["true"])), state),
):
    try:
        act()
    except SystemCallError as error:
        print(error.errno, error)
"""


@pytest.mark.needs_root
def test_a_read_only_folder_is_read_and_nothing_more(steps: Steps) -> None:
    step = steps.launch(["sh", "-c", "exit 3"])
    step.wait(WAIT_S, completed=True)
    steps.await_gone(steps.descriptor(step).supervisor)
    mounted = f"mount --bind {steps.path} {steps.path} && mount -o remount,bind,ro {steps.path}"
    argv = ["unshare", "--mount", "sh", "-c", f'{mounted} && exec "$@"', "sh", sys.executable, "-c", _READ_ONLY]
    done = subprocess.run([*argv, str(steps.path), str(step.runtime_id)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "completed False 3 4"
    assert said[1] == "['it is not acknowledged']"
    assert [line.split()[0] for line in said[2:]] == ["30", "30"], "EROFS"
    assert all(str(steps.path) in line and "Read-only file system" in line for line in said[2:])


def test_a_state_folder_is_made_but_not_the_folders_above(tmp_path: Path) -> None:
    with pytest.raises(AlreadyGone, match=str(tmp_path / "no" / "state")):
        _launch(tmp_path / "no" / "state")
    made = Steps(tmp_path / "state")
    assert made.launch(["true"]).wait(WAIT_S).code == 0
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    made.end_all()
