"""What becomes of the options of `spurd submit`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.cli.submission import Owner, Typed, environment_of, job_spec, own_or, read_script
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.replies import Welcome
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import InvalidArgument
from spurproc.proto.raw_text import RawBytes

OWN = Owner(uid=5, gid=6, groups=(7,), user="me", home={})
OTHER = Owner(uid=5, gid=6, groups=(7,), user="you", home={"HOME": "/home/you", "USER": "you"})
PLAN = KillPlan(steps=((9, None),))
WELCOME = Welcome(
    v=1,
    version="1",
    node="n",
    uid=5,
    gid=6,
    groups=(7,),
    user="me",
    root=False,
    script_limit_bytes=5,
    output_pattern="%j.out",
    kill_plan=PLAN,
)
OURS = {b"HOME": b"/root", b"PATH": b"/bin", b"LC_ALL": b"C", b"SECRET": b"x", b"ODD": b"\xff", b"USER": b"root"}


def typed(**fields: Any) -> Typed:
    values: dict[str, Any] = {"script": None, "arguments": ("true",), "request": ResourceRequest(), "export": "", "env": ()}
    unset: tuple[str, ...] = ("name", "time_limit_s", "output", "error", "stdin", "work_dir", "kill_plan", "pids_max")
    return Typed(**{**dict.fromkeys(unset), **values, "requeue": False, **fields})


@pytest.mark.parametrize(
    ("export", "given", "entries"),
    [
        ("", [], ("HOME=/root", "LC_ALL=C", "PATH=/bin", "USER=root")),
        ("NONE", [], ()),
        ("ALL", [], ("HOME=/root", "LC_ALL=C", RawBytes(b"ODD=\xff"), "PATH=/bin", "SECRET=x", "USER=root")),
        ("SECRET,PATH", ["PATH=/opt", "A=b=c", "E="], ("A=b=c", "E=", "PATH=/opt", "SECRET=x")),
    ],
)
def test_environment(export: str, given: list[str], entries: tuple[object, ...]) -> None:
    assert environment_of(export, given, OWN, OURS) == entries


def test_environment_of_another_user_names_that_user() -> None:
    assert environment_of("", [], OTHER, OURS) == ("HOME=/home/you", "LC_ALL=C", "PATH=/bin", "USER=you")
    assert environment_of("NONE", ["A=1"], OTHER, OURS) == ("A=1",)


@pytest.mark.parametrize(
    ("export", "given", "names"), [("NOPE", [], "'NOPE' is not set"), ("", ["A"], "'A' is no"), ("", ["=1"], "'=1'")]
)
def test_environment_that_is_none(export: str, given: list[str], names: str) -> None:
    with pytest.raises(InvalidArgument, match=names):
        environment_of(export, given, OWN, OURS)


def test_owner_is_whom_the_agent_takes_us_for() -> None:
    assert own_or(None, WELCOME) == OWN


def test_owner_by_name_and_number() -> None:
    root = own_or("root", WELCOME)
    assert (root.uid, root.gid, root.user, root.home["HOME"]) == (0, 0, "root", "/root")
    assert own_or("0", WELCOME) == root
    assert own_or("4000123", WELCOME).user == "4000123"
    for name in ("nobody-such", "9" * 5000):
        with pytest.raises(InvalidArgument, match=f"no user '{name[:20]}"):
            own_or(name, WELCOME)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"script": "/a/run.sh"}, "run.sh"),
        ({"script": "-"}, "stdin"),
        ({"arguments": ("/bin/true", "x")}, "true"),
        ({"arguments": ("a\x1b[31m",)}, "a_[31m"),
        ({"arguments": ("/",)}, "job"),
        ({"arguments": ("\udcff",)}, "_"),
        ({"arguments": ("ü" * 100,)}, "ü" * 64),
        ({"name": "mine"}, "mine"),
    ],
)
def test_name(fields: dict[str, Any], name: str) -> None:
    script = b"#!/bin/sh\n" if "script" in fields else None
    assert job_spec(typed(**fields), OWN, script, WELCOME).name == name


def test_folder_is_the_current_one_unless_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert job_spec(typed(), OWN, None, WELCOME).work_dir == str(tmp_path)
    assert job_spec(typed(work_dir="sub/.."), OWN, None, WELCOME).work_dir == str(tmp_path)
    assert job_spec(typed(work_dir=""), OWN, None, WELCOME).wants_scratch


def test_a_current_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for work_dir in (None, "below"):
        with pytest.raises(InvalidArgument, match="cannot use the current folder"):
            job_spec(typed(work_dir=work_dir), OWN, None, WELCOME)


def test_the_node_says_what_was_not_typed() -> None:
    spec = job_spec(typed(), OWN, None, WELCOME)
    assert (spec.stdout, spec.stderr, spec.kill_plan) == ("%j.out", None, PLAN)
    spec = job_spec(typed(output="o", error="e", kill_plan=KillPlan.default()), OWN, None, WELCOME)
    assert (spec.stdout, spec.stderr, spec.kill_plan) == ("o", "e", KillPlan.default())


def test_umask_is_ours_for_ourselves_alone() -> None:
    before = os.umask(0o027)
    try:
        assert job_spec(typed(), OWN, None, WELCOME).umask == 0o027
        assert job_spec(typed(), OTHER, None, WELCOME).umask == 0o022
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_script_is_read_to_its_limit(tmp_path: Path) -> None:
    script = tmp_path / "s"
    script.write_bytes(b"x" * 1000)
    assert read_script(str(script), 1000) == b"x" * 1000
    with pytest.raises(InvalidArgument, match=r"999 bytes is the longest that the agent takes \(max_job_script_bytes\)"):
        read_script(str(script), 999)


@pytest.mark.parametrize(("name", "why"), [("none", "No such file"), ("folder", "Is a directory"), ("n" * 300, "too long")])
def test_script_that_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidArgument, match=f"cannot read the script .*{why}"):
        read_script(f"{tmp_path}/{name}", 10)


def test_script_without_end_is_too_long() -> None:
    with pytest.raises(InvalidArgument, match="longer"):
        read_script("/dev/zero", 1 << 20)
