"""What tells an older copy of a database from the latest: numbers beside it that only grow, and what follows for a queue."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Acknowledged
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.store.mark import Mark, MarkFile
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.exit_info import ExitKind
from spurproc.errors import NotPermitted, RecordTooNew, SystemCallError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import PROTOCOL_VERSION
from tests.agent_values import View, job_spec, node, report_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[PrivateFolder]:
    with PrivateFolder.create(tmp_path / "state") as folder:
        yield folder


def _read(folder: PrivateFolder) -> Mark:
    with MarkFile.open(folder, "x.mark") as file:
        assert file.damage == ""
        return file.mark


def test_a_mark_only_grows(folder: PrivateFolder) -> None:
    with MarkFile.open(folder, "x.mark") as file:
        assert file.mark == Mark()
        for each in (Mark(reports=3, place=9, job_id=2), Mark(reports=5), Mark(place=4, job_id=7)):
            file.raise_to(each)
    assert _read(folder) == Mark(reports=5, place=9, job_id=7)
    assert Path(folder.path, "x.mark").stat().st_mode & 0o777 == 0o600


def test_the_highest_numbers_fit(folder: PrivateFolder) -> None:
    highest = Mark(reports=2**63 - 1, place=2**63 - 1, job_id=2**63 - 1)
    with MarkFile.open(folder, "x.mark") as file:
        file.raise_to(Mark(reports=1))
        length = Path(folder.path, "x.mark").stat().st_size
        file.raise_to(highest)
    assert Path(folder.path, "x.mark").stat().st_size == length
    assert _read(folder) == highest


@pytest.mark.parametrize("content", [b"{", b"\0" * 256, b'{"v":1,"reports":"many"}', b"[]"])
def test_one_that_cannot_be_read_says_so_and_is_begun_anew(folder: PrivateFolder, content: bytes) -> None:
    Path(folder.path, "x.mark").write_bytes(content)
    with MarkFile.open(folder, "x.mark") as file:
        assert "x.mark" in file.damage
        file.raise_to(Mark(reports=2))
    assert _read(folder) == Mark(reports=2)


def test_one_of_a_later_release_is_left_for_that(folder: PrivateFolder) -> None:
    Path(folder.path, "x.mark").write_bytes(b'{"v":%d}' % (PROTOCOL_VERSION + 1))
    with pytest.raises(RecordTooNew):
        MarkFile.open(folder, "x.mark")


def test_a_link_is_not_followed(folder: PrivateFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    Path(folder.path, "x.mark").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((NotPermitted, SystemCallError)):
        MarkFile.open(folder, "x.mark")


def test_nothing_comes_back_in_a_removed_folder(folder: PrivateFolder) -> None:
    with MarkFile.open(folder, "x.mark") as file:
        shutil.rmtree(folder.path)
        file.raise_to(Mark(reports=2))
        assert not Path(folder.path).exists()


async def _queue(path: Path, mark: MarkFile) -> tuple[LocalController, LocalLink]:
    controller = await LocalController.open(path, clock=lambda: 1.0, mark=mark)
    link = LocalLink(controller)
    await link.register(node())
    return controller, link


async def _run(link: LocalLink, view: View, count: int) -> None:
    for _ in range(count):
        order = await link.take_work(view)
        view.held.add(order.attempt)  # type: ignore[union-attr]  # a dispatch
        assert await link.report(report_of(order.attempt, 3)) == Acknowledged()  # type: ignore[union-attr]


def test_an_older_queue_dispatches_nothing_that_may_have_run(folder: PrivateFolder, tmp_path: Path) -> None:
    """Up to the last place that was reported; but for what the node knows of. Behind it all is as it was; no id comes twice."""
    path = Path(folder.path, "controller.db")

    async def scene(mark: MarkFile) -> None:
        controller, link = await _queue(path, mark)
        for _ in range(4):
            await controller.submit(job_spec(), submitted_by=0)
        await controller.close()
        shutil.copy(path, tmp_path / "backup")
        controller, link = await _queue(path, mark)
        await controller.submit(job_spec(), submitted_by=0)
        await _run(link, View(), 2)
        assert await controller.settle_outdated(()) == [], "it is as young as its mark"
        await controller.close()
        shutil.copy(tmp_path / "backup", path)
        controller, link = await _queue(path, mark)
        assert await controller.settle_outdated({AttemptId(2, 1)}) == [AttemptId(1, 1)]
        assert await controller.settle_outdated(()) == []
        assert (await controller.job(1)).state is JobState.ENDED
        (first,) = await controller.attempts(1)
        assert first.report is not None
        assert first.report.end.kind is ExitKind.UNKNOWN
        view = View()
        await _run(link, view, 3)
        assert view.held == {AttemptId(2, 1), AttemptId(3, 1), AttemptId(4, 1)}
        assert (await controller.requeue(1)).attempt == AttemptId(1, 2)
        assert (await controller.submit(job_spec(), submitted_by=0)).job_id == 5
        await controller.close()

    with MarkFile.open(folder, "controller.mark") as mark:
        asyncio.run(scene(mark))
        assert mark.mark.reports == 5
