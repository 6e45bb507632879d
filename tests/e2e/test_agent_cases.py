"""Failures that people have met elsewhere, each put to an agent: what it was started with, what its jobs do, what is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents
from tests.fifo import Gate, Told
from tests.relatives import NOBODY
from tests.spurd_command import PROGRAM, Spurd
from tests.steps import WAIT_S, Steps

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_WORST = """
import os, signal, sys
for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM})
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.umask(0o077)
os.dup2(os.open("/etc/hostname", os.O_RDONLY), 7)
os.close(0)
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-900")
except PermissionError:
    pass
os.environ |= {"NOTIFY_SOCKET": "/nowhere", "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.environ |= {"INVOCATION_ID": "x", "SECRET": "x"}
os.execv(sys.argv[1], sys.argv[1:])
"""
_TELL = """
grep -E '^(SigIgn|SigBlk|Cpus_allowed_list|Uid|Groups):' /proc/self/status | tr -s '\\t ' ' '
cat /proc/self/oom_score_adj; umask; ls /proc/$$/fd | tr '\\n' ' '; echo; env | cut -d= -f1 | sort | tr '\\n' ' '
"""


def _serving(process: subprocess.Popen[bytes]) -> None:
    """Block until it says so."""
    assert process.stderr is not None
    for line in process.stderr:
        if b"event=serves" in line:
            return
    raise AssertionError("it has ended")


def test_however_an_agent_is_started_its_jobs_begin_clean(commons: Path) -> None:
    """Ignored and blocked signals, a mask, one CPU, protection from the OOM killer, descriptors, variables; and a long path."""
    folder = commons / ("long" * 40) / "state"
    folder.parent.mkdir()
    folder.parent.chmod(0o755)
    cpu, spurd = max(os.sched_getaffinity(0)), Spurd(folder)
    command = [sys.executable, "-c", _WORST, str(PROGRAM), "serve", "--state-dir", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, pass_fds=()) as agent, ExitStack() as cleaned:
        cleaned.callback(agent.kill)
        _serving(agent)
        cleaned.enter_context(Steps(folder / "steps"))
        script = commons / "tell"
        script.write_text(f"#!/bin/sh\n{_TELL}")
        words = ("--user", str(NOBODY), "--workdir", commons, "-o", "told", "--export", "NONE")
        said = spurd.here("submit", "--wait", *words, script)
        assert said.code == 0, said
        told = (commons / "told").read_text().splitlines()
        assert told[:5] == [
            f"Uid: {NOBODY} {NOBODY} {NOBODY} {NOBODY}",
            "Groups: " + told[1].removeprefix("Groups: "),
            "SigBlk: 0000000000000000",
            "SigIgn: 0000000000000000",
            f"Cpus_allowed_list: {cpu}",
        ]
        assert "0" not in told[1].split()
        assert told[5:8] == ["0", "0022", "0 1 10 2 "]  # 10: dash keeps its script there
        names = told[8].split()
        assert not {"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "INVOCATION_ID", "SECRET"} & set(names)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(WAIT_S) == 0


_SCRIPTS = {
    "exit 300": "exited 44",
    "exit -1": "exited 255",
    "return 2": "exited 2",
    "exit 137": "exited 137",
    "kill -9 $$": "killed by SIGKILL",
    'exec sh -c "exit 9"': "exited 9",
    "trap 'echo bye' EXIT; exit 7": "exited 7",
    "trap '[ 1 = 2 ]' EXIT; exit 0": "exited 0",
    "trap 'echo $? >rc' EXIT; kill -TERM $$; exit 0": "killed by SIGTERM",
    "set -eu; echo $unbound; exit 0": "exited 1",
    "yes | head -n1; exit 5": "exited 5",
    "exec >&-; echo lost; exit 6": "exited 6",
    "setsid sleep 600 & exit 8": "exited 8",
    "(trap '' TERM; sleep 600) & exit 9": "exited 9",
}


def _written(folder: Path, script: str) -> Path:
    """For an interpreter of its own; what a script is without one is another test."""
    path = folder / f"script-{len(os.listdir(folder))}"
    path.write_text(f"{script}\n")
    return path


def test_what_a_script_does_is_told_as_the_kernel_saw_it(tmp_path: Path) -> None:
    """No trap, no exec and no child that is left behind makes another end of it; and nothing of them is left."""
    with Agents(tmp_path / "state", cpus=4).start() as agent:
        jobs = {}
        for script in _SCRIPTS:
            jobs[script] = agent.submit(argv=("bash", str(_written(tmp_path, script))))
        ends = {script: agent.ended(job) for script, job in jobs.items()}
        assert ends == _SCRIPTS
        for job in jobs.values():
            agent.until(f"{job}.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask("claims") == {}


@pytest.fixture
def held(tmp_path: Path, gate: Callable[[str], Gate], told: Callable[[str], Told]) -> Iterator[tuple[Agents, Gate]]:
    """An agent with a job that waits with a child of its own."""
    go, begun = gate("go"), told("begun")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"(exec 3<>{go.path}; echo >{begun.path}; sleep 600) & read x <{go.path}; exit 3")
        begun.line()
        agent.until("1.1", "running")
        yield agent, go


def _open_in(pid: int) -> set[str]:
    """What its descriptors are of."""
    return {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def test_a_service_manager_that_kills_the_agents_cgroup_kills_no_job(held: tuple[Agents, Gate], cgroup_root: Path) -> None:
    """All of ours lives elsewhere, and has nothing open that is the agent's: the next one begins, and takes it up."""
    agent, go = held
    assert agent.process is not None
    (cgroup_root / "cgroup.procs").write_text(str(agent.process.pid))
    known = agent.steps.descriptor_of(1, 1, 0xFFFFFFFE)
    assert known.leader is not None
    own = {link for link in _open_in(agent.process.pid) if link.startswith("socket:")}
    for name in ("owner", "agent.db", "agent.db-wal", "controller.db", "controller.db-wal"):
        own.add(f"{agent.path}/{name}")
    assert own & _open_in(agent.process.pid) == own
    for keeper in (known.host, known.supervisor, known.leader):
        assert own.isdisjoint(_open_in(keeper.pid))
    (cgroup_root / "cgroup.kill").write_text("1")
    assert agent.wait() == -signal.SIGKILL
    agent.start()
    assert agent.leader(1) == known.leader.pid
    go.open()
    assert agent.ended(1) == "exited 3"


def test_a_supervisor_that_is_killed_loses_neither_the_end_nor_the_tree(held: tuple[Agents, Gate]) -> None:
    """As by the OOM killer: its job goes on, its end is true, and what it leaves behind is ended."""
    agent, go = held
    agent.steps.kill(agent.steps.descriptor_of(1, 1, 0xFFFFFFFE).supervisor)
    assert agent.ask("claims") == {"1.1": [0]}
    go.open()
    assert agent.ended(1) == "exited 3"
    agent.until("1.1", "none")
    assert agent.folders() == NOTHING_LEFT


@pytest.mark.own_pid_namespace(mount=True)
def test_what_cannot_be_removed_now_is_removed_later(
    tmp_path: Path, told: Callable[[str], Told], gate: Callable[[str], Gate]
) -> None:
    """Something is mounted in its scratch folder: that is tried again until it works, and holds up nothing else."""
    go, begun = gate("go"), told("begun")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"mkdir m; echo >{begun.path}; read x <{go.path}")
        begun.line()
        place = agent.path / "scratch" / f"{job}.1" / "m"
        subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
        go.open()
        assert agent.ended(job) == "exited 0"
        agent.await_fact("tried again later")
        assert agent.ask("claims") == {}
        assert agent.ended(agent.submit("exit 4")) == "exited 4"
        subprocess.run(["umount", str(place)], check=True)
        agent.until(f"{job}.1", "none")
        agent.until("2.1", "none")
        assert agent.folders()["scratch"] == []
