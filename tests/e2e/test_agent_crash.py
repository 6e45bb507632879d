"""The agent is killed before and after each of its effects, and started again: nothing runs twice, no end is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.agent.attempts.table import Effect
from tests.agents import NOTHING_LEFT, Agents

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_ON_THE_WAY = (
    Effect.RUN_PROLOG,
    Effect.PREPARE,
    Effect.LAUNCH,
    Effect.WATCH,
    Effect.RECORD_END,
    Effect.OFFER_REPORT,
    Effect.RUN_EPILOG,
    Effect.RECORD_EPILOG,
    Effect.RELEASE,
    Effect.RECORD_REPORTED,
    Effect.REMOVE_STEP,
    Effect.REMOVE_HOOKS,
    Effect.REMOVE_SPOOL,
    Effect.RECORD_FORGOTTEN,
    Effect.LEAVE,
)
"""Of a job that runs and ends, on a node with a prolog and an epilog. Records that stand side by side are one: its first."""
_CANCELLED = (Effect.RECORD_CANCEL, Effect.TERMINATE)


def _writing(tmp_path: Path, name: str) -> str:
    return f"/bin/sh -c 'echo {name} $SPURD_JOB_ID.$SPURD_RUN_ATTEMPT >>{tmp_path}/hooks'"


def _agents(tmp_path: Path) -> Agents:
    hooks = {"prolog-argv": _writing(tmp_path, "prolog"), "epilog-argv": _writing(tmp_path, "epilog")}
    return Agents(tmp_path / "state", hooks)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("effect", _ON_THE_WAY, ids=lambda effect: effect.name)
def test_a_job_that_ends(tmp_path: Path, effect: Effect, when: str) -> None:
    """It has run once, and so have its hooks."""
    with _agents(tmp_path).start(crash=f"{effect.name} {when} 1 SIGKILL") as agent:
        job = agent.submit("echo ran; exit 7", stdout=str(tmp_path / "out"))
        assert agent.wait() == -9
        agent.start()
        assert agent.ended(job) == "exited 7"
        agent.until("1.1", "none")
        assert agent.ask("history 1") == ["exited 7"]
        assert (tmp_path / "out").read_text() == "ran\n"
        assert (tmp_path / "hooks").read_text() == "prolog 1.1\nepilog 1.1\n"
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask("claims") == {}
        assert agent.ask("drains") == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("effect", _CANCELLED, ids=lambda effect: effect.name)
def test_a_job_that_is_cancelled(tmp_path: Path, effect: Effect, when: str) -> None:
    """The intent is durable before anything is signalled: whatever is killed, it ends, and is not run again."""
    with _agents(tmp_path).start(crash=f"{effect.name} {when} 1 SIGKILL") as agent:
        job = agent.submit("echo ran; sleep 600", stdout=str(tmp_path / "out"))
        agent.until("1.1", "running")
        agent.ask(f"cancel {job}")
        assert agent.wait() == -9
        agent.start()
        assert agent.ask(f"ended {job}") == {"end": "killed by SIGTERM", "cancelled": True, "fault": None}
        agent.until("1.1", "none")
        assert (tmp_path / "out").read_text() in ("ran\n", "")
        assert (tmp_path / "hooks").read_text() == "prolog 1.1\nepilog 1.1\n"
        assert agent.folders() == NOTHING_LEFT
