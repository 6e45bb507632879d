"""A cgroup written down and asked after later: GONE only on proof, UNKNOWN where this may be another view."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.observation import Liveness, Observation
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.trees import inside

pytestmark = pytest.mark.needs_cgroup_v2
Start = Callable[..., Payload]


def _record(path: Path) -> CgroupRecord:
    with Cgroup.create(path) as cgroup:
        return cgroup.record()


def _seen(seen: Observation) -> tuple[str, str]:
    return seen.liveness.value, seen.evidence


def _as_nobody(record: CgroupRecord) -> tuple[str, str]:
    """As a user that may not open handles by inode."""
    liveness, evidence = in_fork(lambda: list(_seen(record.observe())), uid=NOBODY)
    return liveness, evidence


def test_member_decides(cgroup_root: Path, payload: Start) -> None:
    record = _record(cgroup_root / "x")
    assert _seen(record.observe()) == ("gone", "cgroup.events")
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    assert _seen(record.observe()) == ("alive", "cgroup.events")
    assert CgroupRecord.from_json(record.to_json()) == record


def test_another_boot_is_gone(cgroup_root: Path, payload: Start) -> None:
    """Path and inode may be taken again: nothing but the boot tells."""
    record = dataclasses.replace(_record(cgroup_root / "x"), boot_id="00000000-0000-4000-8000-000000000000")
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    assert _seen(record.observe()) == ("gone", "boot")


@pytest.mark.needs_root
def test_removed_is_gone_by_its_handle(cgroup_root: Path) -> None:
    record = _record(cgroup_root / "x")
    (cgroup_root / "x").rmdir()
    assert _seen(record.observe()) == ("gone", "handle")


@pytest.mark.needs_root
def test_removed_is_gone_under_the_cgroup_that_was_above_it(cgroup_root: Path) -> None:
    record = _record(cgroup_root / "x")
    (cgroup_root / "x").rmdir()
    assert _as_nobody(record) == ("gone", "absent")


@pytest.mark.needs_root
def test_absence_under_another_parent_proves_nothing(cgroup_root: Path) -> None:
    above = inside(cgroup_root, "above")
    record = _record(above / "x")
    (above / "x").rmdir()
    above.rmdir()
    assert _as_nobody(record) == ("unknown", "no parent")
    above.mkdir()
    assert _as_nobody(record) == ("unknown", "parent")


@pytest.mark.needs_root
def test_namesake_proves_nothing_without_the_handle(cgroup_root: Path, payload: Start) -> None:
    record = _record(cgroup_root / "x")
    (cgroup_root / "x").rmdir()
    (cgroup_root / "x").mkdir()
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    assert _as_nobody(record) == ("unknown", "inode")
    assert _seen(record.observe()) == ("gone", "handle"), "the inode is gone, whoever has the name"


@pytest.mark.needs_root
def test_handle_finds_it_where_the_path_leads_elsewhere(cgroup_root: Path, payload: Start) -> None:
    record = dataclasses.replace(_record(cgroup_root / "x"), path=str(cgroup_root / "moved"))
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    assert _seen(record.observe()) == ("alive", "cgroup.events")
    assert _as_nobody(dataclasses.replace(record, path=str(cgroup_root))) == ("unknown", "inode")


def test_plain_folder_at_the_path_is_unknown(cgroup_root: Path, tmp_path: Path) -> None:
    (tmp_path / "cgroup.events").write_text("populated 0\n")
    record = dataclasses.replace(_record(cgroup_root / "x"), path=str(tmp_path))
    assert _seen(record.observe()) == ("unknown", "not cgroup2")


@pytest.mark.needs_root
def test_unreadable_is_unknown(cgroup_root: Path, payload: Start) -> None:
    record = _record(cgroup_root / "x")
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    (cgroup_root / "x").chmod(0)
    assert _as_nobody(record) == ("unknown", "unreadable")
    (cgroup_root / "x").chmod(0o755)
    (cgroup_root / "x" / "cgroup.events").chmod(0)
    assert _as_nobody(record) == ("unknown", "unreadable")


_ELSEWHERE = """
import json, os, subprocess, sys
from spurproc.core.cgroup.record import CgroupRecord
for kind in ("tmpfs", "cgroup2"):  # straight over the old mount the kernel says EBUSY
    subprocess.run(["mount", "-t", kind, "none", sys.argv[1]], check=True)
assert "cgroup.controllers" in os.listdir(sys.argv[1]) and "jail" not in os.listdir(sys.argv[1])
record = CgroupRecord.from_json(json.loads(sys.argv[2]))
print(record.observe().liveness.value)
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("user", [[], ["--user", "--map-root-user"]], ids=["root", "user-namespace"])
def test_live_one_is_never_gone_from_another_cgroup_namespace(cgroup_root: Path, payload: Start, user: list[str]) -> None:
    """There the same path leads to nothing, and a mount of its own shows only what is below."""
    record = _record(cgroup_root / "x")
    jail = inside(cgroup_root, "jail")
    payload("hold", cgroup=cgroup_root / "x").wait_ready()
    mount = os.environ["SPURPROC_CGROUP_ROOT"].split("/spurproc-test-")[0]
    enter = ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(jail)]
    unshare = ["unshare", *user, "--cgroup", "--mount", sys.executable, "-c", _ELSEWHERE, mount]
    text = str(record.to_json()).replace("'", '"')
    done = subprocess.run([*enter, *unshare, text], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() in {"alive", "unknown"}


def test_liveness_is_the_short_form(cgroup_root: Path) -> None:
    assert _record(cgroup_root / "x").liveness() is Liveness.GONE


@pytest.mark.needs_cgroup_v2
def test_record_names_it_and_nothing_else(cgroup_root: Path) -> None:
    with Cgroup.open(cgroup_root) as cgroup:
        record = cgroup.record()
        assert (record.path, record.inode) == (str(cgroup_root), cgroup.inode)
    assert record.above_inode == cgroup_root.parent.stat().st_ino
