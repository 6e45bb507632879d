"""Trees that a shutdown could not prove gone: recorded, looked at by the next start, and cleared when they really are."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spurproc.agent.node.quarantine import QuarantinedTree, review_quarantine, write_quarantine
from spurproc.agent.node.state_dir import QUARANTINE_NAME, StateDir
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.vantage import Vantage
from spurproc.errors import InvalidArgument, SystemCallError
from tests.descriptors import descriptors_left
from tests.payload import Payload

_OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    """A state folder of one's own."""
    with StateDir.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def record_of(path: Path) -> CgroupRecord:
    with Cgroup.open(path) as cgroup:
        return CgroupRecord.of_folder(cgroup.fileno(), str(path))


def tree(*processes: ProcessIdentity, cgroup: CgroupRecord | None = None, name: str = "7.1.0") -> QuarantinedTree:
    texts = tuple(each.to_text() for each in processes)
    return QuarantinedTree(name=name, reason="it does not end", cgroup=cgroup, identity_texts=texts)


def there(state: StateDir) -> bool:
    return state.folder.has(QUARANTINE_NAME)


def test_without_a_record_nothing_is_quarantined(state: StateDir) -> None:
    """The usual start."""
    review = review_quarantine(state)
    assert (review.quarantined, review.cleared, review.remaining) == (False, False, ())


@pytest.mark.needs_cgroup_v2
def test_a_tree_quarantines_until_its_cgroup_is_empty(
    state: StateDir, cgroup_root: Path, payload: Callable[..., Payload]
) -> None:
    """A member that no identity names counts, and an emptied cgroup is enough: nothing has to be removed."""
    member = payload("hold", cgroup=cgroup_root)
    member.wait_ready()
    write_quarantine(state, [tree(cgroup=record_of(cgroup_root))], at_s=1.0)
    for _ in range(2):
        review = review_quarantine(state)
        assert (review.quarantined, review.cleared) == (True, False)
        assert review.remaining == (f"7.1.0: its cgroup: alive: {cgroup_root} is populated",)
        assert there(state)
    member.release()
    member.wait_exit()
    review = review_quarantine(state)
    assert (review.quarantined, review.cleared, there(state)) == (False, True, False)
    assert not review_quarantine(state).cleared


@pytest.mark.needs_cgroup_v2
def test_a_removed_cgroup_is_gone_and_a_leader_that_left_it_is_not(
    state: StateDir, cgroup_root: Path, process: subprocess.Popen[bytes]
) -> None:
    """Both have to be gone, whichever is recorded."""
    (cgroup_root / "step").mkdir()
    record = record_of(cgroup_root / "step")
    (cgroup_root / "step").rmdir()
    write_quarantine(state, [tree(ProcessIdentity.of(process.pid), cgroup=record)], at_s=1.0)
    (remaining,) = review_quarantine(state).remaining
    assert remaining.startswith(f"7.1.0: process {process.pid}: alive: ")
    process.kill()
    process.wait()
    assert review_quarantine(state).cleared


def test_one_of_many_is_enough(state: StateDir, process: subprocess.Popen[bytes]) -> None:
    """And is the one that is named."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        gone = ProcessIdentity.of(ended.pid)
    write_quarantine(state, [tree(gone), tree(gone, ProcessIdentity.of(process.pid), name="8.1.0")], at_s=1.0)
    (remaining,) = review_quarantine(state).remaining
    assert remaining.startswith(f"8.1.0: process {process.pid}")
    process.kill()
    process.wait()
    assert review_quarantine(state).cleared


def test_what_cannot_be_told_quarantines(state: StateDir, tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    """UNKNOWN is not gone: an identity by ticks of another pid namespace, a place that is no cgroup's now."""
    here = Vantage.read()
    other = dataclasses.replace(ProcessIdentity.of(process.pid), pid_namespace=here.pid_namespace + 1, pidfs_inode=None)
    elsewhere = CgroupRecord(path=str(tmp_path), inode=5, above_inode=4, boot_id=here.boot_id)
    for unknown in (tree(other), tree(cgroup=elsewhere)):
        write_quarantine(state, [unknown], at_s=1.0)
        assert ": unknown: " in review_quarantine(state).remaining[0]
        assert there(state)


def test_of_another_boot_nothing_lives(state: StateDir, process: subprocess.Popen[bytes]) -> None:
    """Neither processes nor cgroups, whoever has their numbers now."""
    other = dataclasses.replace(ProcessIdentity.of(process.pid), boot_id=_OTHER_BOOT)
    cgroup = CgroupRecord(path="/sys/fs/cgroup", inode=1, above_inode=1, boot_id=_OTHER_BOOT)
    write_quarantine(state, [tree(other, cgroup=cgroup)], at_s=1.0)
    assert review_quarantine(state).cleared


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"v":1,"at_s":1,"trees":[{"name":"a","reason":"b"}]}',
        b'{"v":1,"at_s":1,"trees":[{"name":"a","reason":"b","processes":["spurproc-id 1 0 0 x - 0 0"]}]}',
        b'{"v":1,"at_s":1,"trees":[{"name":"a","reason":"b","cgroup":{"path":"x","inode":1,"above_inode":1,"boot_id":"x"}}]}',
        b'{"v":99,"at_s":1,"trees":[]}',
    ],
)
def test_a_record_that_cannot_be_read_quarantines_until_it_is_removed(state: StateDir, content: bytes) -> None:
    """Nothing tells what it held. It stays, and the sentence says what an operator can do."""
    state.folder.replace_file(QUARANTINE_NAME, content)
    review = review_quarantine(state)
    assert (review.quarantined, review.cleared) == (True, False)
    assert QUARANTINE_NAME in review.remaining[0]
    assert review.remaining[0].endswith("remove it")
    assert state.folder.read_file(QUARANTINE_NAME, 4096) == content
    state.folder.discard_file(QUARANTINE_NAME)
    assert not review_quarantine(state).quarantined


def test_a_link_in_its_place_quarantines(state: StateDir, tmp_path: Path) -> None:
    """It is not followed, and not taken for no record."""
    (tmp_path / "state" / QUARANTINE_NAME).symlink_to("/dev/null")
    assert review_quarantine(state).quarantined


def test_want_of_descriptors_is_an_error_of_its_own(state: StateDir, process: subprocess.Popen[bytes]) -> None:
    """Nobody is told to remove a record that is fine."""
    write_quarantine(state, [tree(ProcessIdentity.of(process.pid))], at_s=1.0)
    with descriptors_left(0), pytest.raises(SystemCallError):
        review_quarantine(state)
    assert there(state)


def test_the_record_is_durable_before_the_shutdown_goes_on(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, then name: a power cut must not let the next agent start over it."""
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).split(".json")[0])
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write_quarantine(state, [tree(ProcessIdentity.of(os.getpid()))], at_s=1.0)
    assert synced == [".quarantine", "state"]


def test_a_tree_that_nothing_could_prove_gone_is_no_tree() -> None:
    """It would quarantine for ever."""
    with pytest.raises(InvalidArgument, match="neither a cgroup nor a process"):
        tree()
