"""What the state folder lies on, told from real mounts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spurproc.agent.node import storage
from spurproc.agent.node.storage import storage_warning
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.mountinfo import Mount


def mounted(fs_type: str) -> Mount:
    return Mount(mount_id=1, root="/", point="/x", options=frozenset(), fs_type=fs_type, super_options=frozenset())


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True)
def test_a_file_system_in_memory_is_told(tmp_path: Path) -> None:
    """By its mount, whatever lies below it: the one that this very folder is on."""
    with PrivateFolder.create(tmp_path / "before") as before:
        subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path)], check=True)
        with PrivateFolder.create(tmp_path / "state") as folder:
            assert storage_warning(folder).startswith(
                f"the state folder '{folder.path}' lies on tmpfs (mounted at {tmp_path}): nothing"
            )
        assert f"mounted at {tmp_path})" not in storage_warning(before)


@pytest.mark.parametrize(
    ("fs_type", "word"),
    [
        ("nfs4", "locks"),
        ("fuse.sshfs", "locks"),
        ("fuse", "locks"),
        ("tmpfs", "reboot"),
        ("ext4", ""),
        ("xfs", ""),
        ("fuseblk", ""),
    ],
)
def test_each_kind_is_told_by_what_it_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fs_type: str, word: str
) -> None:
    """A network's, one in memory, and those that keep what they are given."""
    monkeypatch.setattr(storage, "_mount_of", lambda _folder: mounted(fs_type))
    with PrivateFolder.create(tmp_path / "state") as folder:
        said = storage_warning(folder)
    assert (word in said) if word else said == ""


def test_what_cannot_be_told_is_not_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that is gone from the list meanwhile, or a /proc that is not there."""
    monkeypatch.setattr(storage, "read_mountinfo", tuple)
    with PrivateFolder.create(tmp_path / "state") as folder:
        assert storage_warning(folder) == ""
