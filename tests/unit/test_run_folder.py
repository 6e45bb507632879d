"""The files of a run's folder: what is left where the work on them is cut short."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.recorded.folder import remove_files

_RECORDS = {"run.json", "exit", "exit.tmp", "usage", "started"}


def test_a_removal_cut_short_reads_as_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """run.json goes first, or what is left would read as a run that never started; the lock last, for it keeps others out."""
    gone: list[str] = []
    unlink = os.unlink

    def note_unlink(name: str, *, dir_fd: int) -> None:
        gone.append(name)
        unlink(name, dir_fd=dir_fd)

    with PrivateFolder.create(tmp_path / "run") as folder:
        for name in (*_RECORDS, "lock"):
            os.close(folder.create_file(name))
        monkeypatch.setattr(os, "unlink", note_unlink)
        remove_files(folder)
        assert folder.names() == []
    assert (gone[0], set(gone[1:-1]), gone[-1]) == ("run.json", _RECORDS - {"run.json"}, "lock")
