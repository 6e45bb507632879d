"""What a newcomer gets wrong: each is refused by name before anything is started, or said as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spurproc
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import InvalidArgument, ProcessFailed
from tests.spawning import no_child_is_left


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"timeout": 1}, "timeout_s"),
        ({"capture_output": True}, "capture"),
        ({"check": True}, "check()"),
        ({"text": True}, "bytes"),
        ({"shell": True}, "sh"),
        ({"detach": True}, "detach"),
    ],
)
def test_options_of_subprocess_are_pointed_to_ours(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument") as caught:
        spurproc.run(["true"], **options)
    assert hint in str(caught.value)


@pytest.mark.parametrize("options", [{"kill_plan": [(15, 1)]}, {"containment": "descendants"}, {"input": "text"}])
def test_an_argument_of_another_type_is_named_and_nothing_runs(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        spurproc.run(["sleep", "1000"], **options)
    no_child_is_left()


def test_a_plan_is_no_argv(tmp_path: Path) -> None:
    argv: Any = ["true"]
    with pytest.raises(InvalidArgument, match="SpawnPlan"):
        spurproc.spawn(argv)
    with pytest.raises(InvalidArgument, match="SpawnPlan"):
        spurproc.launch_recorded(argv, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_names_its_command() -> None:
    with pytest.raises(ProcessFailed, match="'false' failed: exited 1"):
        spurproc.run(["false"]).check()


def test_a_closed_run_says_that_it_is_closed(tmp_path: Path) -> None:
    run = spurproc.launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run")
    run.wait()
    run.close()
    for use in (run.liveness, run.exit_info, run.terminate, run.remove, lambda: run.signal(15), lambda: run.wait(1)):
        with pytest.raises(InvalidArgument, match="closed"):
            use()
    assert "run" in repr(run)
    with spurproc.RecordedRun.open(tmp_path / "run") as again:
        again.remove()
