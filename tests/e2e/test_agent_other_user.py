"""A second user beside jobs that are not theirs, on a real agent: cannot read, signal, cancel or spoof any of it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.service.replies import Refusal, Refused
from spurproc.agent.service.requests import Cancel, Drain, Jobs, Release, Requeue, Resume, Show, Submit, Suspend, Undrain, Wait
from spurproc.errors import Busy
from spurproc.proto.attempt_id import AttemptId
from tests.agent_service import RawPeer
from tests.agents import Agents
from tests.fifo import Gate, Told
from tests.relatives import NOBODY, in_fork
from tests.spurd_program import DOOR

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

VICTIM = 12345
"""Whose job runs: neither root nor the one who tries."""
JOB, NEXT = AttemptId(1, 1), AttemptId(1, 2)
BARE = AttemptId(1 << 62, 1)


@pytest.fixture
def agent(commons: Path) -> Iterator[Agents]:
    """One that every user may reach; its hooks leave records for as long as a job runs."""
    with Agents(commons / "state", {"prolog-argv": "/bin/true"}, cpus=2).start() as made:
        yield made


@pytest.fixture
def hold(agent: Agents, gate: Callable[[str], Gate], told: Callable[[str], Told]) -> Gate:
    """A job of the victim's runs until this is opened; what it has to say stands in its scratch folder."""
    made, begun = gate("hold"), told("begun")
    script = f"echo secret; touch secret; echo >{begun.path}; read x <{made.path}; exit 3"
    agent.submit(script, user="victim", uid=VICTIM, gid=VICTIM)
    begun.line()
    agent.until("1.1", "running")
    return made


def _below(*tops: Path) -> list[str]:
    """All that is there, as root sees it; but the door that is the tests' own."""
    return [str(path) for top in tops for path in (top, *top.rglob("*")) if path.name != DOOR]


def _opened(paths: list[str], flags: int) -> list[str]:
    """Which of them can be opened so."""
    found = []
    for path in paths:
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            continue
        found.append(path)
    return found


def _reached(paths: list[str]) -> list[str]:
    """At which of them somebody listens who lets us connect."""
    found = []
    for path in paths:
        with socket.socket(socket.AF_UNIX) as end:
            try:
                end.connect(path)
            except OSError:
                continue
        found.append(path)
    return found


def test_another_user_reads_nothing_and_reaches_only_the_agent(agent: Agents, hold: Gate) -> None:
    """Neither a database, a record, a script, an output, nor a supervisor's socket."""
    paths = _below(agent.path)
    for name in ("agent.db", "controller.db", "ready.json", "script", "secret", "job-1.1.out", "launch.json", "run.json"):
        assert any(path.endswith(f"/{name}") for path in paths), name

    def attack() -> list[list[str]]:
        return [_opened(paths, os.O_RDONLY), _opened(paths, os.O_WRONLY), _reached(paths)]

    assert in_fork(attack, uid=NOBODY) == [[], [], [str(agent.path / "control.sock")]]
    # the victim itself reads what is its own, and no record of the agent's
    own = in_fork(lambda: _opened(paths, os.O_RDONLY), uid=VICTIM)
    assert [path for path in own if "/scratch/1.1" not in path] == [f"{agent.path}/spool/1.1/script"]
    hold.open()
    assert agent.ended(1) == "exited 3"


def test_another_user_signals_nobody(agent: Agents, hold: Gate) -> None:
    """No process of it, by number or by cgroup: the agent, the host, the supervisor, the job."""
    known = agent.steps.descriptor_of(1, 1, JOB.step(0xFFFFFFFE).step_id)
    assert agent.process is not None
    assert known.leader is not None
    assert known.cgroup is not None
    pids = [agent.process.pid, known.host.pid, known.supervisor.pid, known.leader.pid]
    cgroup = Path(known.cgroup.path)
    files = [path for path in _below(cgroup, cgroup.parent, cgroup.parent.parent / "supervisors") if os.path.isfile(path)]
    assert any(path.endswith("/cgroup.procs") for path in files)

    def attack() -> list[object]:
        refused = 0
        for pid in pids:
            pidfd = os.pidfd_open(pid)
            for number in (0, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.pidfd_send_signal(pidfd, number)
                except PermissionError:
                    refused += 1
            os.close(pidfd)
        return [refused, _opened(files, os.O_WRONLY)]

    assert in_fork(attack, uid=NOBODY) == [16, []]
    assert agent.until("1.1", "running") == "running"
    hold.open()
    assert agent.ended(1) == "exited 3"


def _spec(**more: Any) -> JobSpec:
    mine: dict[str, Any] = {"name": "n", "user": "nobody", "uid": NOBODY, "gid": NOBODY, "argv": ("true",)}
    return JobSpec(**mine | more)


def _not_theirs() -> list[Any]:
    """What another user may ask for, and is refused."""
    return [
        *(kind(attempt=attempt) for kind in (Cancel, Suspend, Resume, Requeue) for attempt in (JOB, NEXT, BARE)),
        *(Show(job_id=job_id) for job_id in (1, BARE.job_id)),
        Wait(job_id=1),
        Jobs(uid=VICTIM),
        Drain(),
        Undrain(),
        Release(),
        Submit(spec=_spec(uid=VICTIM, gid=VICTIM, user="victim")),
        Submit(spec=_spec(uid=0, gid=0, user="root")),
        Submit(spec=_spec(user="victim")),
        Submit(spec=_spec(gid=0)),
        Submit(spec=_spec(groups=(VICTIM,))),
    ]


def test_another_user_cancels_and_spoofs_nothing(agent: Agents, hold: Gate) -> None:
    """Whatever is said on the socket about what is not theirs is refused, and nothing comes of it, nor of a key of another's."""
    path = agent.path / "control.sock"

    def attack() -> list[str]:
        told = []
        for request in _not_theirs():
            with RawPeer(path).greet() as peer:
                peer.say(request)
                reply = peer.hear()
                told.append(reply.kind.value if isinstance(reply, Refused) else repr(reply))
        with AgentClient.connect(path) as client:
            return [*told, repr(list(client.jobs())), repr(client.status().held)]

    with AgentClient.connect(path) as client:  # root reserves, and has a key
        client.submit(_spec(user="root", uid=0, gid=0), key="k")
    agent.ask("ended 2")
    agent.until("2.1", "none")
    with AgentClient.connect(path) as client:
        client.alloc(_spec().resources)
        refused = in_fork(attack, uid=NOBODY)
        assert set(refused[:-2]) <= {one.value for one in (Refusal.NOT_FOUND, Refusal.NOT_PERMITTED, Refusal.INVALID)}, refused
        assert refused[-2:] == ["[]", "()"]
        assert agent.ask("drains") == []
        client.release()
    assert in_fork(lambda: _submitted(path), uid=NOBODY) == [3, False]
    assert agent.ended(3) == "exited 0"
    agent.until("3.1", "none")
    assert agent.until("1.1", "running") == "running"
    hold.open()
    assert agent.ask("ended 1") == {"end": "exited 3", "cancelled": False, "fault": None}


def test_another_user_is_told_of_a_drain_and_not_whose_it_is(commons: Path) -> None:
    with Agents(commons / "state", {"epilog-argv": "/bin/false"}, cpus=2).start() as agent:
        assert agent.ended(agent.submit("exit 0", user="victim", uid=VICTIM, gid=VICTIM)) == "exited 0"
        agent.until("1.1", "none")
        path = agent.path / "control.sock"

        def look() -> list[object]:
            with AgentClient.connect(path) as client:
                told = [[drain.cause, drain.why] for drain in client.status().drains]
                with pytest.raises(Busy) as refused:
                    client.alloc(_spec().resources)
            return [told, str(refused.value)]

        why = "the epilog of an attempt failed"
        told, refused = in_fork(look, uid=NOBODY)
        assert told == [["epilog", why]]
        assert refused.endswith(f"cannot reserve: the node drains: {why}")
        with AgentClient.connect(path) as client:
            assert [drain.why for drain in client.status().drains] == ["the epilog of attempt 1.1 failed: exited 1"]


def _submitted(path: Path) -> list[object]:
    with AgentClient.connect(path) as client:
        done = client.submit(_spec(), key="k")
        return [done.job_id, done.repeated]
