"""Links, FIFOs, sockets and worse wherever a job reaches: its agent goes on, and nothing outside of it is touched."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from spurproc.agent.cli.connection import AgentClient
from tests.agents import NOTHING_LEFT, Agents
from tests.fifo import Told
from tests.relatives import NOBODY, in_fork

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_PLANT = """
set -e
ln -s {victim} link; ln {own} name; mkfifo fifo; mkdir -p deep/deep/deep closed
ln -s {victim}/theirs deep/link; ln -s {state} deep/deep/state; mkfifo deep/deep/deep/fifo; chmod 0 closed
{python} -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
chmod u+w $0; echo 'echo again >{victim}/again' >$0
rm -f job-$SPURD_JOB_ID.1.out; ln -s {victim}/theirs job-$SPURD_JOB_ID.1.out
if mv $0 $0.x || ln -s {victim} {state}/spool/x || touch {state}/steps/x; then exit 1; fi
echo >{told}; sleep 600 & exit 3
"""


@pytest.fixture
def agent(commons: Path) -> Iterator[Agents]:
    """One that every user may reach."""
    with Agents(commons / "state", cpus=4).start() as made:
        yield made


@pytest.fixture
def victim(commons: Path) -> Path:
    """What others plant links to: root's, and nobody's to write."""
    folder = commons / "victim"
    folder.mkdir(mode=0o755)
    (folder / "theirs").write_text("theirs\n")
    (folder / "theirs").chmod(0o600)
    return folder


def _untouched(victim: Path) -> bool:
    return os.listdir(victim) == ["theirs"] and (victim / "theirs").read_text() == "theirs\n"


def _submit(agent: Agents, script: str, **more: str) -> int:
    return agent.submit(script, user="nobody", uid=NOBODY, gid=NOBODY, **more)


def test_what_a_job_plants_in_its_reach_changes_nothing(
    agent: Agents, victim: Path, commons: Path, told: Callable[[str], Told]
) -> None:
    """Its scratch folder, its script and its output: all of it is removed, and it ends as it ended."""
    own = commons / "own"
    own.write_text("own\n")
    os.chown(own, NOBODY, NOBODY)
    begun = told("begun")
    names = {"victim": victim, "own": own, "state": agent.path, "python": "/usr/bin/env python3", "told": begun.path}
    job = _submit(agent, _PLANT.format(**names))
    begun.line()
    assert agent.ended(job) == "exited 3"
    agent.until(f"{job}.1", "none")
    assert agent.folders() == NOTHING_LEFT
    assert own.read_text() == "own\n"
    assert own.stat().st_uid == NOBODY
    assert _untouched(victim)


def _why_not(agent: Agents, job: int) -> str | None:
    """Why its last attempt did not start, once it has ended."""
    agent.ask(f"ended {job}")
    with AgentClient.connect(agent.path / "control.sock") as client:
        end = client.show(job).attempts[-1].end
    return None if end is None else end.reason


def _plant(path: Path, what: str, victim: Path) -> None:
    match what:
        case "link":
            path.symlink_to(victim / "theirs")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(str(path))


def test_what_stands_in_the_place_of_its_streams_and_folder(agent: Agents, victim: Path, commons: Path) -> None:
    """What cannot be opened as its user keeps that job from running, and is named; a FIFO holds up nobody else."""
    folder = commons / "job"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    for what in ("link", "fifo", "folder", "socket"):
        in_fork(partial(_plant, folder / what, what, victim), uid=NOBODY)
    blocked = _submit(agent, "exit 0", work_dir=str(folder), stdout="fifo")
    for field, what, why in (
        ("stdout", "link", "Permission denied"),
        ("stdout", "folder", "Is a directory"),
        ("stdout", "socket", "No such device or address"),
        ("stdin", "link", "Permission denied"),
        ("stderr", "socket", "No such device or address"),
    ):
        said = _why_not(agent, _submit(agent, "exit 0", work_dir=str(folder), **{field: what}))
        assert said == f"cannot open {field}, '{folder}/{what}': {why}"
    for what in ("fifo", "socket", "link"):
        said = _why_not(agent, _submit(agent, "exit 0", work_dir=str(folder / what)))
        assert said == f"cannot enter the work folder '{folder / what}': Not a directory"
    assert agent.until(f"{blocked}.1", "launching", "running") in ("launching", "running")
    agent.ask(f"cancel {blocked}")
    assert agent.ended(blocked) == "not started: ended before exec at stage STDOUT"
    agent.until(f"{blocked}.1", "none")
    assert agent.ask("claims") == {}
    assert _untouched(victim)


def test_an_attempt_that_follows_what_another_has_planted(agent: Agents, victim: Path, commons: Path) -> None:
    """Run again it finds what the one before has left in its work folder: its output goes nowhere else."""
    folder = commons / "job"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    job = _submit(agent, f"ln -s {victim}/theirs job.out.2; exit 3", work_dir=str(folder), stdout="job.out.%a")
    assert agent.ended(job) == "exited 3"
    agent.ask(f"requeue {job}")
    assert _why_not(agent, job) == f"cannot open stdout, '{folder}/job.out.2': Permission denied"
    assert _untouched(victim)
