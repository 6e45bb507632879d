"""All steps of a state folder are found again, whatever stands among them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import AlreadyGone, Liveness, NotPermitted, RecordInvalid, RecordTooNew, RuntimeId, StepState, adopt
from tests.step_records import write_step
from tests.steps import WAIT_S, Gate, Steps

_EACH_S = 0.0002


def test_steps_are_adopted_while_they_run_and_after_their_end(steps: Steps, tmp_path: Path) -> None:
    """By a program that has not launched them: what it adopts is what was launched."""
    gate = Gate(tmp_path / "gate")
    running = steps.launch(gate.script("exit 9"))
    over = steps.launch(["true"])
    over.wait(WAIT_S, completed=True)
    adoption = adopt(steps.path)
    assert adoption.steps == (running, over)
    assert adoption.refused == ()
    assert adoption.steps[0].status().state is StepState.RUNNING
    gate.open()
    assert adoption.steps[0].wait(WAIT_S).code == 9


def test_a_step_that_stands_ready_can_be_started_by_who_adopts_it(steps: Steps) -> None:
    steps.launch(["sh", "-c", "exit 4"], start=False)
    (step,) = adopt(steps.path).steps
    step.start()
    assert step.wait(WAIT_S).code == 4


def _empty_record(folder: Path) -> None:
    (folder / "launch.json").write_bytes(b"")


def _too_new(folder: Path) -> None:
    content = (folder / "launch.json").read_bytes()
    (folder / "launch.json").write_bytes(content.replace(b'"v":1', b'"v":99'))


def _descriptor_too_new(folder: Path) -> None:
    (folder / "descriptor.json").write_bytes(b'{"v":99}')


def _bad_line(folder: Path) -> None:
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"event":"invented"}\n')


def _no_journal(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()


def _no_lock(folder: Path) -> None:
    (folder / "lock").unlink()


def _of_another(folder: Path) -> None:
    content = (folder / "launch.json").read_bytes()
    (folder / "launch.json").write_bytes(content.replace(b'"job_id":2', b'"job_id":8'))


def _open_to_others(folder: Path) -> None:
    folder.chmod(0o770)


def _link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def _fifo(folder: Path) -> None:
    (folder / "launch.json").unlink()
    os.mkfifo(folder / "launch.json")


_BAD: list[tuple[Callable[[Path], None], type[Exception]]] = [
    (_empty_record, RecordInvalid),
    (_too_new, RecordTooNew),
    (_descriptor_too_new, RecordTooNew),
    (_bad_line, RecordInvalid),
    (_no_journal, RecordInvalid),
    (_no_lock, RecordInvalid),
    (_of_another, RecordInvalid),
    (_open_to_others, NotPermitted),
    (_link, NotPermitted),
    (_fifo, NotPermitted),
]


@pytest.mark.parametrize(("spoil", "kind"), _BAD)
def test_one_bad_folder_stops_nothing_and_is_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[Exception]
) -> None:
    """The others are adopted; the bad one is told by its name, with the reason."""
    state = tmp_path / "state"
    folders = [write_step(state, RuntimeId(job, 1, 0)) for job in (1, 2, 3)]
    spoil(folders[1])
    before = sorted(str(path) for path in state.rglob("*"))
    adoption = adopt(state)
    assert [str(step.runtime_id) for step in adoption.steps] == ["1.1.0", "3.1.0"]
    refused = {folder.name: folder.error for folder in adoption.refused}
    assert isinstance(refused["2.1.0"], kind)
    assert "2.1.0" in str(refused["2.1.0"])
    assert sorted(str(path) for path in state.rglob("*")) == before


def test_what_is_no_step_is_told_and_what_is_being_made_is_not(tmp_path: Path) -> None:
    state = tmp_path / "state"
    write_step(state, RuntimeId(1, 1, 0))
    write_step(state, RuntimeId(2, 1, 0), name=".new-2.1.0-abcd")
    write_step(state, RuntimeId(3, 1, 0), name=".old-3.1.0-abcd")
    write_step(state, RuntimeId(4, 1, 0), name="4.01.0")
    (state / "runtime" / "notes").write_text("mine")
    adoption = adopt(state)
    assert [str(step.runtime_id) for step in adoption.steps] == ["1.1.0"]
    assert [folder.name for folder in adoption.refused] == ["4.01.0", "notes"]


def test_no_state_folder_is_not_the_same_as_no_steps(tmp_path: Path) -> None:
    """Whoever takes the one for the other hands the same device out twice."""
    with pytest.raises(AlreadyGone, match=str(tmp_path / "state")):
        adopt(tmp_path / "state")


def test_a_thousand_are_adopted_at_0_2_ms_each_and_hold_nothing(tmp_path: Path) -> None:
    """Processor time, so that the machine's other work does not count; and a thousand cost no more each than a hundred."""
    small, large = tmp_path / "small", tmp_path / "large"
    for state, count in ((small, 100), (large, 1000)):
        for job in range(1, count + 1):
            write_step(state, RuntimeId(job, 1, 0))
    before = len(os.listdir("/proc/self/fd"))
    each = {}
    for state, count in ((small, 100), (large, 1000)):
        taken = []
        for _ in range(3):
            began = time.process_time()
            assert len(adopt(state).steps) == count
            taken.append((time.process_time() - began) / count)
        each[state] = min(taken)
    kept = adopt(large).steps
    assert len(os.listdir("/proc/self/fd")) == before
    assert kept[0].status().liveness.liveness is Liveness.GONE
    assert each[large] <= _EACH_S, each
    assert each[large] <= 2 * each[small], each
