"""The demo judges itself: each fact that is not as it is claimed makes a claim false, and the exit code 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import demo
from examples.claims import ENDS, Row, Story, claims

_FREE = {"totals": {"cpus": [0]}, "free": {"cpus": [0]}, "held": [], "drains": []}
_CODES = {"exited 0": 0, "exited 7": 7, "killed by SIGKILL": 137}
ROWS = tuple(
    Row(job=job, script=script, attempts=1, runs=1, end=end, source="waited", code=_CODES[end], cancelled=job == 1)
    for job, (script, end) in enumerate(ENDS.items(), 1)
)
TRUE = Story(
    killed="killed by SIGKILL",
    alive_unwatched=2,
    ended_unwatched=(("compile.sh", "exited 0"),),
    same_leader=True,
    second="exited 1",
    rows=ROWS,
    left_alive=0,
    status=_FREE,
    stopped="exited 0",
    left_behind=(),
)


def _with_row(place: int, **more: Any) -> Story:
    rows = list(ROWS)
    rows[place] = replace(rows[place], **more)
    return replace(TRUE, rows=tuple(rows))


FALSE = {
    "spurd was not killed": replace(TRUE, killed="exited 0"),
    "nothing went on": replace(TRUE, alive_unwatched=0),
    "another end than was seen meanwhile": replace(TRUE, ended_unwatched=(("compile.sh", "exited 2"),)),
    "another process": replace(TRUE, same_leader=False),
    "two agents": replace(TRUE, second="exited 0"),
    "a job too few": replace(TRUE, rows=ROWS[1:]),
    "a second attempt": _with_row(1, attempts=2),
    "run twice": _with_row(2, runs=2),
    "not run": _with_row(3, runs=0),
    "a wrong end": _with_row(3, end="exited 0", code=0),
    "an end that is not known": _with_row(4, end="unknown: lost"),
    "an end from a record": _with_row(0, source="recorded"),
    "a code of its own": _with_row(3, code=0),
    "cancelled, and not said": _with_row(0, cancelled=False),
    "not cancelled, and said": _with_row(1, cancelled=True),
    "a process left": replace(TRUE, left_alive=1),
    "a CPU taken": replace(TRUE, status={**_FREE, "free": {"cpus": []}}),
    "held": replace(TRUE, status={**_FREE, "held": [{}]}),
    "drained": replace(TRUE, status={**_FREE, "drains": [{}]}),
    "a bad stop": replace(TRUE, stopped="exited 1"),
    "a file left": replace(TRUE, left_behind=("spool/1.1",)),
}


def test_all_of_it_holds() -> None:
    assert [text for text, holds in claims(TRUE) if not holds] == []


@pytest.mark.parametrize("story", FALSE.values(), ids=FALSE.keys())
def test_what_is_not_so_is_told(story: Story) -> None:
    assert not all(holds for _, holds in claims(story))


@pytest.mark.parametrize(("story", "code"), [(TRUE, 0), (FALSE["run twice"], 1)], ids=["true", "false"])
def test_the_exit_code_is_the_verdict(
    story: Story, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "play", lambda *_: story)
    assert demo.demo(tmp_path, as_json=False) == code
    said = capsys.readouterr().out
    assert ("FALSE" in said) == bool(code)
    assert all(script in said for script in ENDS)
