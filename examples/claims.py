"""What the demo says of spurd, and whether it was so: plain comparisons, of what was seen with what was promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENDS = {
    "stubborn.sh": "killed by SIGKILL",
    "compile.sh": "exited 0",
    "crunch.py": "exited 0",
    "trap_exec.sh": "exited 7",
    "daemonise.sh": "exited 0",
}
"""Each script, in the order of submission, and how it truly ends: the first ignores SIGTERM, and is cancelled."""
SAYS = {
    "stubborn.sh": "not listening to SIGTERM",
    "compile.sh": "compiled ",
    "crunch.py": "longest chain below ",
    "trap_exec.sh": "about to become another program",
    "daemonise.sh": "leader done",
}
"""With what the line begins that each run of it writes once."""
CANCELLED = "stubborn.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job, when all is over."""

    job: int
    script: str
    attempts: int
    """As the agent's books have it."""
    runs: int
    """As its output has it."""
    end: str
    source: str
    code: int
    """With which `spurd wait` ended."""
    cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that was seen."""

    killed: str
    """How the first spurd ended."""
    alive_unwatched: int
    """Processes of jobs that lived while there was no spurd."""
    ended_unwatched: tuple[tuple[str, str], ...]
    """Scripts that ended meanwhile, and how, by the records of their steps."""
    same_leader: bool
    """The job that ran all the time is the very process that it was before."""
    second: str
    """How another spurd on the same folder ended."""
    rows: tuple[Row, ...]
    left_alive: int
    status: dict[str, Any]
    """What `spurd status` says when all jobs are over."""
    stopped: str
    left_behind: tuple[str, ...]
    """What stands in the state folder of any job, when all are over."""


Claim = tuple[str, bool]


def claims(story: Story) -> list[Claim]:
    """Each with whether it is so."""
    return [
        ("spurd was killed by SIGKILL", story.killed == "killed by SIGKILL"),
        ("jobs went on without it", story.alive_unwatched > 0),
        *[(f"{script} ended truly while there was none", end == ENDS[script]) for script, end in story.ended_unwatched],
        (f"{CANCELLED} is the process that it was before", story.same_leader),
        ("another spurd on the same folder was refused", story.second == "exited 1"),
        ("every script was a job", [row.script for row in story.rows] == list(ENDS)),
        ("every job had one attempt", all(row.attempts == 1 for row in story.rows)),
        ("every job ran once, by what it wrote", all(row.runs == 1 for row in story.rows)),
        ("every end is the true one", all(row.end == ENDS.get(row.script) for row in story.rows)),
        ("every end was seen by a parent that waited", all(row.source == "waited" for row in story.rows)),
        ("`spurd wait` passed it on", all(row.code == _code(row.end) for row in story.rows)),
        ("the one that was cancelled is told from the others", _cancelled(story) == [CANCELLED]),
        ("nothing lives that any job started", story.left_alive == 0),
        ("all resources are free, nothing is held", _free(story.status)),
        ("spurd ended when it was told to", story.stopped == "exited 0"),
        ("no file of any job is left", story.left_behind == ()),
    ]


def _code(end: str) -> int | None:
    """As a shell would have it: 128 + 9 for SIGKILL. None where there is no such code."""
    word, _, code = end.rpartition(" ")
    return int(code) if word == "exited" else {"killed by SIGKILL": 137}.get(end)


def _cancelled(story: Story) -> list[str]:
    return [row.script for row in story.rows if row.cancelled]


def _free(status: dict[str, Any]) -> bool:
    return status["free"] == status["totals"] and not status["held"] and not status["drains"]
