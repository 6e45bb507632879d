"""What the end-to-end tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from spurproc.client.host_link import PROGRAM_VARIABLE
from tests import cgroup_folder
from tests.agent_service import AgentDesk
from tests.fifo import Gate, Told
from tests.spurd_command import Spurd
from tests.steps import Steps, host_without_cgroups


@pytest.fixture(autouse=True, scope="session")
def cgroup_home() -> None:
    """The folder in which the product makes its root, SPURPROC_CGROUP_ROOT; removed at the end of the session."""
    if cgroup_folder.base() is not None:
        cgroup_folder.session_folder().mkdir(exist_ok=True)


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """A state folder for supervised steps; they and their host are gone when the test is over."""
    with Steps(tmp_path / "state") as made:
        yield made


@pytest.fixture
def bare_steps(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """As `steps`, where the host may make no cgroups: what holds a tree together is that it descends from its supervisor."""
    monkeypatch.setenv(PROGRAM_VARIABLE, str(host_without_cgroups(tmp_path)))
    return steps


@pytest.fixture
def commons() -> Iterator[Path]:
    """A folder that every user may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def told(commons: Path) -> Iterator[Callable[[str], Told]]:
    """Make FIFOs that a job can tell something on, each by a name."""
    with ExitStack() as made:
        yield lambda name: made.enter_context(Told(commons / name))


@pytest.fixture
def gate(commons: Path) -> Iterator[Callable[[str], Gate]]:
    """Make FIFOs that a job can wait on."""
    with ExitStack() as made:
        yield lambda name: made.enter_context(Gate(commons / name))


@pytest.fixture
def desk(commons: Path) -> Iterator[AgentDesk]:
    """The agent's service, without an agent, where every user may reach it."""
    with AgentDesk(commons / "state") as made:
        yield made


@pytest.fixture
def spurd(desk: AgentDesk) -> Spurd:
    """The program, for that service."""
    return Spurd(desk.folder)
