"""What nobody needs any more is removed, what crashes left is swept, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spurproc import AlreadyGone, Busy, Cgroup, Hook, InvalidArgument, RuntimeId, Step, gc
from spurproc.client.collection import sweep
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from tests.step_records import ACKNOWLEDGED, ENDED, write_step
from tests.steps import KILL_AT_ONCE, WAIT_S, Gate, Steps, folder_of

_HOOK = Hook(argv=("true",))


def _over(steps: Steps, *, acknowledged: bool = True, **more: object) -> Step:
    step = steps.launch(["true"], **more)  # type: ignore[arg-type]  # of a spec or plan
    supervisor = steps.descriptor(step).supervisor
    step.wait(WAIT_S, completed=True)
    if acknowledged:
        step.acknowledge()
    steps.await_gone(supervisor)
    return step


def _kept(steps: Steps) -> dict[str, str]:
    return {kept.name: kept.reason for kept in gc(steps.path).kept}


def test_only_what_is_acknowledged_and_over_goes(steps: Steps, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    running, ready = steps.launch(gate.script()), steps.launch(["true"], start=False)
    unacknowledged, done = _over(steps, acknowledged=False), _over(steps, prolog=_HOOK, epilog=_HOOK)
    report = gc(steps.path)
    assert (report.removed, report.swept) == ((done.runtime_id,), ())
    assert {kept.name: kept.reason for kept in report.kept} == {
        str(running.runtime_id): "it is not over",
        str(ready.runtime_id): "it is not over",
        str(unacknowledged.runtime_id): "it is not acknowledged",
    }
    assert not folder_of(done).exists()
    unacknowledged.acknowledge()
    assert gc(steps.path).removed == (unacknowledged.runtime_id,)
    gate.open()
    assert running.wait(WAIT_S).code == 0


def test_a_step_is_acknowledged_and_removed_at_once(steps: Steps, tmp_path: Path) -> None:
    """With its supervisor there, which leaves then, and without; not before it is over."""
    gate = Gate(tmp_path / "gate")
    attended, left = steps.launch(gate.script()), _over(steps, acknowledged=False)
    with pytest.raises(Busy, match="cannot acknowledge"):
        attended.remove()
    assert folder_of(attended).exists()
    supervisor = steps.descriptor(attended).supervisor
    gate.open()
    attended.wait(WAIT_S, completed=True)
    for step in (attended, left):
        step.remove()
        assert not folder_of(step).exists()
        with pytest.raises(AlreadyGone):
            step.remove()
    steps.await_gone(supervisor)


def test_others_are_not_even_looked_at(steps: Steps) -> None:
    """Who removes one step after the other says which."""
    one, other = _over(steps), _over(steps)
    bad = steps.path / "runtime" / ".new-1.1.0-00000000"
    bad.mkdir(mode=0o700)
    report = gc(steps.path, only=(one.runtime_id,))
    assert (report.removed, report.swept, report.kept) == ((one.runtime_id,), (), ())
    assert folder_of(other).exists()
    assert gc(steps.path, only=(one.runtime_id,)).removed == ()
    assert gc(steps.path).removed == (other.runtime_id,)
    bad.rmdir()


def test_a_journal_from_the_future_keeps_no_step_for_ever(steps: Steps) -> None:
    """The clock was set back: without an age that is asked for, none is compared."""
    step = _over(steps)
    os.utime(folder_of(step) / "journal.jsonl", (2**32, 2**32))
    assert gc(steps.path).removed == (step.runtime_id,)


def test_a_step_stays_as_long_as_it_is_asked_to(steps: Steps) -> None:
    """By the time since something was written to its journal."""
    step = _over(steps)
    assert gc(steps.path, older_than_s=3600).removed == ()
    assert "within 3600 s" in {kept.reason: "" for kept in gc(steps.path, older_than_s=3600).kept}.popitem()[0]
    os.utime(folder_of(step) / "journal.jsonl", (0, 0))
    assert gc(steps.path, older_than_s=3600).removed == (step.runtime_id,)
    for bad in (-1, float("nan"), "soon"):
        with pytest.raises(InvalidArgument, match="older_than_s"):
            gc(steps.path, older_than_s=bad)  # type: ignore[arg-type]  # that is the point


def test_a_lock_that_is_held_keeps_a_folder(tmp_path: Path) -> None:
    """Of a step, and of a launch or a removal under way."""
    state = tmp_path / "state"
    names = ("1.1.0", ".new-1.1.0-aa", ".old-1.1.0-aa")
    for name in names:
        write_step(state, RuntimeId(1, 1, 0), ACKNOWLEDGED, name=name)
    for name in names:
        with PrivateFolder.open(state / "runtime" / name) as folder, FolderLock.take(folder) or pytest.fail("held"):
            kept = {kept.name: kept.reason for kept in gc(state).kept}
            assert kept.keys() == {name}
            assert "lock is held" in kept[name]
        assert (state / "runtime" / name).exists()
        for other in names:
            if not (state / "runtime" / other).exists():
                write_step(state, RuntimeId(1, 1, 0), ACKNOWLEDGED, name=other)


def test_what_killed_launches_and_removals_left_is_swept(tmp_path: Path) -> None:
    """A launch record and a free lock: its launcher is dead. Without either, a launcher may be about to write them."""
    state = tmp_path / "state"
    write_step(state, RuntimeId(1, 1, 0), (), name=".new-1.1.0-aa")
    write_step(state, RuntimeId(2, 1, 0), name=".old-2.1.0-aa")
    write_step(state, RuntimeId(3, 1, 0), (), name=".new-3.1.0-aa")
    (state / "runtime" / ".new-3.1.0-aa" / "launch.json").unlink()
    bare, old_bare = state / "runtime" / ".new-4.1.0-aa", state / "runtime" / ".old-5.1.0-aa"
    for folder in (bare, old_bare):
        folder.mkdir(mode=0o700)
    report = gc(state)
    assert report.swept == (".new-1.1.0-aa", ".old-2.1.0-aa", ".old-5.1.0-aa")
    assert {kept.name: kept.reason for kept in report.kept} == dict.fromkeys(
        (".new-3.1.0-aa", ".new-4.1.0-aa"), "its launch may be beginning"
    )
    for name, at in ((".new-3.1.0-aa", 0), (".new-4.1.0-aa", 2**32)):  # the clock may have been set back since
        os.utime(state / "runtime" / name, (at, at))
    assert gc(state).swept == (".new-3.1.0-aa", ".new-4.1.0-aa")
    assert os.listdir(state / "runtime") == []


def test_who_alone_launches_there_sweeps_what_is_young_as_well(tmp_path: Path) -> None:
    """And looks at no step, and at nothing whose lock is held."""
    state = tmp_path / "state"
    write_step(state, RuntimeId(1, 1, 0), ACKNOWLEDGED)
    for number in (2, 3):
        write_step(state, RuntimeId(number, 1, 0), (), name=f".new-{number}.1.0-aa")
        (state / "runtime" / f".new-{number}.1.0-aa" / "launch.json").unlink()
    (state / "runtime" / ".new-4.1.0-aa").mkdir(mode=0o700)
    os.utime(state / "runtime" / ".new-2.1.0-aa", (2**32, 2**32))
    with PrivateFolder.open(state / "runtime" / ".new-3.1.0-aa") as folder, FolderLock.take(folder) or pytest.fail("held"):
        report = sweep(state)
    assert report.swept == (".new-2.1.0-aa", ".new-4.1.0-aa")
    assert [kept.name for kept in report.kept] == [".new-3.1.0-aa"]
    assert sorted(os.listdir(state / "runtime")) == [".new-3.1.0-aa", "1.1.0"]


def test_no_link_is_followed_however_deep_a_job_has_dug(tmp_path: Path) -> None:
    """Links inside go, what they lead to stays; links and files among the steps stay, and are told."""
    state, treasure = tmp_path / "state", tmp_path / "treasure"
    treasure.mkdir(mode=0o700)
    (treasure / "lock").touch(mode=0o600)
    (treasure / "kept").write_text("kept")
    folder = write_step(state, RuntimeId(1, 1, 0), ACKNOWLEDGED)
    (folder / "file").symlink_to(treasure / "kept")
    (folder / "folder").symlink_to(treasure)
    os.mkfifo(folder / "fifo")
    _dig(folder, 1200)
    runtime = state / "runtime"
    for name in (".old-7.1.0-aa", ".new-7.1.0-aa", "7.1.0"):
        (runtime / name).symlink_to(treasure)
    (runtime / "notes").write_text("mine")
    report = gc(state)
    assert report.removed == (RuntimeId(1, 1, 0),)
    assert report.swept == ()
    kept = {kept.name: kept.reason for kept in report.kept}
    assert kept.keys() == {".old-7.1.0-aa", ".new-7.1.0-aa", "7.1.0", "notes"}
    assert all("symbolic link" in reason for name, reason in kept.items() if name != "notes")
    assert sorted(os.listdir(treasure)) == ["kept", "lock"]


def _dig(folder: Path, depth: int) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


def test_what_cannot_be_read_is_kept(tmp_path: Path) -> None:
    """Acknowledged or not: a later release may still need it."""
    state = tmp_path / "state"
    for job, (name, content) in enumerate((("launch.json", b'{"v":99}'), ("journal.jsonl", b"{}\n"), ("launch.json", b"")), 1):
        (write_step(state, RuntimeId(job, 1, 0), ACKNOWLEDGED) / name).write_bytes(content)
    write_step(state, RuntimeId(9, 1, 0), ENDED)
    report = gc(state)
    assert report.removed == ()
    assert [kept.name for kept in report.kept] == ["1.1.0", "2.1.0", "3.1.0", "9.1.0"]
    assert "its version is 99" in report.kept[0].reason


@pytest.mark.needs_cgroup_v2
def test_cgroups_that_were_left_go_too_and_one_that_is_in_use_keeps_its_step(steps: Steps, tmp_path: Path) -> None:
    """A supervisor killed at its end leaves its cgroup; somebody may have moved in."""
    gate = Gate(tmp_path / "gate")
    busy, left = (steps.launch(gate.script()) for _ in range(2))
    records = [steps.descriptor(step).cgroup for step in (busy, left)]
    assert all(records)
    for step in (busy, left):
        step.terminate(KILL_AT_ONCE)
        step.wait(WAIT_S, completed=True)
        step.acknowledge()
        steps.await_gone(steps.descriptor(step).supervisor)
    paths = [Path(record.path) for record in records if record is not None]
    assert not any(path.exists() for path in paths)
    made = [Cgroup.create(path) for path in paths]
    for step, cgroup in zip((busy, left), made, strict=True):
        record = cgroup.record()
        content = (folder_of(step) / "descriptor.json").read_bytes()
        old = steps.descriptor(step).cgroup
        assert old is not None
        changed = content.replace(f'"inode":{old.inode}'.encode(), f'"inode":{record.inode}'.encode())
        (folder_of(step) / "descriptor.json").write_bytes(changed)
    guest = steps.launch(gate.script())
    leader = guest.status().leader
    assert leader is not None
    home = steps.descriptor(guest).cgroup
    assert home is not None
    (paths[0] / "cgroup.procs").write_text(f"{leader.pid}\n")
    report = gc(steps.path)
    assert report.removed == (left.runtime_id,)
    assert "something still lives in it" in next(kept.reason for kept in report.kept if kept.name == str(busy.runtime_id))
    assert [path.exists() for path in paths] == [True, False]
    (Path(home.path) / "cgroup.procs").write_text(f"{leader.pid}\n")
    for cgroup in made:
        cgroup.close()
    gate.open()
    assert guest.wait(WAIT_S).code == 0
    assert gc(steps.path).removed == (busy.runtime_id,)
    assert not paths[0].exists()
