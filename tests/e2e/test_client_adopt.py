"""All steps of a state folder are found again, whatever stands among them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spurproc import (
    AlreadyGone,
    Containment,
    NotPermitted,
    ProcessIdentity,
    RecordInvalid,
    RecordTooNew,
    RuntimeId,
    StepState,
    adopt,
)
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import DESCRIPTOR_NAME, Descriptor
from tests.step_records import write_step
from tests.steps import WAIT_S, Gate, Steps

_TIMES_BARE = 12
"""It is 5 on a real machine: folders held, a look at who owns what, four decoders. Milliseconds: docs/benchmarks-steps.md."""


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


def _read_bare(state: Path) -> None:
    """What adoption cannot do without, and no more: the system calls that reach a step, see its lock and read its records."""
    runtime_fd = os.open(state / "runtime", os.O_RDONLY | os.O_DIRECTORY)
    for name in os.listdir(runtime_fd):
        folder_fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=runtime_fd)
        os.fstat(folder_fd)
        os.stat("lock", dir_fd=folder_fd)
        for record in ("descriptor.json", "journal.jsonl", "launch.json"):
            record_fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder_fd)
            os.pread(record_fd, os.fstat(record_fd).st_size, 0)
            os.close(record_fd)
        os.close(folder_fd)
    os.close(runtime_fd)


def _least_s(times: int, *calls: Callable[[], object]) -> list[float]:
    """Processor time, so that the machine's other work does not count: of each the least, for they are made in turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(times):
        for call, found in zip(calls, taken, strict=True):
            began = time.process_time()
            call()
            found.append(time.process_time() - began)
    return [min(found) for found in taken]


def _supervised(state: Path, count: int) -> None:
    who = ProcessIdentity.of(os.getpid()).to_text()
    for job in range(1, count + 1):
        runtime_id = RuntimeId(job, 1, 0)
        descriptor = Descriptor(
            runtime_id=runtime_id, supervisor_text=who, host_text=who, containment=Containment.DESCENDANTS, leader_text=who
        )
        (write_step(state, runtime_id) / DESCRIPTOR_NAME).write_bytes(encode(descriptor))


def test_a_thousand_are_adopted_at_little_more_than_they_are_read_and_hold_nothing(tmp_path: Path) -> None:
    """A few times the bare system calls, on any machine; and a thousand cost no more each than a hundred."""
    small, large = tmp_path / "small", tmp_path / "large"
    _supervised(small, 100)
    _supervised(large, 1000)
    before = len(os.listdir("/proc/self/fd"))
    bare_s, few_s, all_s = _least_s(5, partial(_read_bare, large), partial(adopt, small), partial(adopt, large))
    kept = adopt(large).steps
    assert len(kept) == 1000
    assert len(os.listdir("/proc/self/fd")) == before
    assert kept[0].status().state is StepState.COMPLETED
    assert all_s <= _TIMES_BARE * bare_s, (bare_s, all_s)
    assert all_s <= 2 * 10 * few_s, (few_s, all_s)
