"""One state folder with an agent on it, a neighbour who runs through all of it, and what a scene may do there and learn of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spurproc import Liveness, ProcessIdentity
from spurproc.proto.codec import encode
from tests import cgroup_folder
from tests.agent_values import job_spec
from tests.agents import Agents
from tests.bystander import Bystander
from tests.fifo import Gate, Told
from tests.node_tree import NodeTree
from tests.spurd_program import AGAIN_VARIABLE, CRASH_VARIABLE

NEIGHBOUR = "1.1"
FIRST_GPU, SECOND_GPU = "0000:41:00.0", "0000:65:00.0"
DATABASES = ("agent.db", "controller.db")


@dataclass(frozen=True, slots=True)
class Cell:
    """One strike. `victims`: who is killed there before the agent is."""

    scene: str
    place: str
    when: str
    victims: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scene!r}, {self.when} {self.place}, {'+'.join(('agent', *self.victims))}"

    @property
    def order(self) -> str:
        """As the agent is told."""
        return f"{self.place} {self.when} 1 SIGKILL {' '.join(self.victims)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What has to come of a job: the ends of its attempts, and how often each was run, and had its hooks."""

    job: int
    ends: tuple[str, ...]
    runs: tuple[int, ...]
    hooks: tuple[int, ...]
    cancelled: bool
    """Whether the last of them was told to end: that is known whatever became of who was told so."""
    told: dict[str, Any]
    """What the controller says of it."""


@dataclass(slots=True)
class _Play:
    """Of one cell."""

    cell: Cell
    crashed: bool = False
    armed: bool = False
    awaited: list[Awaited] = field(default_factory=list)


class Stage:
    """Entered once for many cells: each of them is struck, started again and judged, and must leave it as it was."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """`alone`: without a neighbour."""
        path.mkdir()
        self.path = path
        self.alone = alone
        self.tree = NodeTree("nvidia", path)
        self.tree.write("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n")
        self.facts = path / "facts"
        self.facts.mkdir()
        hooks = {f"{name}-argv": f"/bin/sh {self._hook(name)}" for name in ("prolog", "epilog")}
        env = {CRASH_VARIABLE: "", AGAIN_VARIABLE: "0.2"}
        self.agent = Agents(path / "state", hooks, odd=True, root=self.tree.root)
        self.agent.env |= env
        self._held = ExitStack()
        self._keys = 0
        self._play: _Play | None = None

    def _hook(self, name: str) -> Path:
        """Says in a file that it runs; fails while another one stands there."""
        script = self.path / name
        script.write_text(
            f"echo {name} $SPURD_JOB_ID.$SPURD_RUN_ATTEMPT >>{self.facts}/hooks\ntest ! -e {self.facts}/{name}-fails\n"
        )
        return script

    def __enter__(self) -> Self:
        try:
            self._held.enter_context(self.agent).start()
            self.bystander = self._held.enter_context(closing(Bystander()))
            self._neighbour_gate = self.gate()
            if not self.alone:
                assert self.agent.submit(self.waiting(self._neighbour_gate, 3), stdout=str(self.facts / "out-%j.%a")) == 1
                self.agent.until(NEIGHBOUR, "running")
                self.neighbour = ProcessIdentity.of(self.agent.leader(1))
            self.cgroups = cgroups()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._held.__exit__(kind, value, trace)

    def end(self) -> list[str]:
        """The neighbour ends as it would have without all of that. What is wrong with it."""
        if self.alone:
            return []
        self._neighbour_gate.open()
        end = self.agent.ended(1)
        self.agent.until(NEIGHBOUR, "none")
        return [] if end == "exited 3" and self.runs(NEIGHBOUR) == 1 else [f"neighbour: {end}, ran {self.runs(NEIGHBOUR)} times"]

    # What scenes do.

    @property
    def play(self) -> _Play:
        """The one that is on."""
        assert self._play is not None
        return self._play

    def begin(self, cell: Cell, *, at_start: bool) -> None:
        """From here on it may be struck; `at_start`: from the next start on."""
        self._play = _Play(cell)
        if not at_start:
            self.play.armed = True
            self.agent.ask(f"crash {cell.order}")

    def ask(self, line: str | bytes) -> Any:
        """Ask until it is answered: an agent that is struck meanwhile is started again, and asked again."""
        while True:
            try:
                return self.agent.ask(line)
            except (ConnectionError, FileNotFoundError):
                self._started_again()

    def _started_again(self) -> None:
        code = self.agent.wait()
        assert (code, self.play.crashed) == (-9, False), f"the agent has ended by itself: {code}"
        self.play.crashed = True
        self.agent.start()

    def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """SIGKILL, and a new one, after what comes to pass meanwhile; the first of them may be struck on its way."""
        self.agent.kill()
        meanwhile()
        if self.play.armed:
            self.agent.start()
        else:
            self.play.armed = True
            self.agent.spawn(crash=self.play.cell.order)
        self.ask("attempts")

    def submit(self, then: str, **more: Any) -> int:
        """A job that says that it runs, and then does that. Its id, whatever became of the agent that was asked first."""
        self._keys += 1
        script = f'#!/bin/sh\necho "$SPURD_JOB_ID.$SPURD_RUN_ATTEMPT" >>{self.facts}/ran\n{then}\n'
        spec = job_spec(script=script.encode(), **{"stdout": str(self.facts / "out-%j.%a")} | more)
        return int(self.ask(f"submit-as key-{self._keys} ".encode() + encode(spec)))

    def gate(self) -> Gate:
        """One more."""
        self._keys += 1
        return self._held.enter_context(Gate(self.facts / f"gate-{self._keys}"))

    def told(self) -> Told:
        """One more."""
        self._keys += 1
        return self._held.enter_context(Told(self.facts / f"told-{self._keys}"))

    def waiting(self, gate: Gate, code: int) -> str:
        """Of a script: that it waits there, and how it exits then."""
        return f"echo $SPURD_JOB_ID.$SPURD_RUN_ATTEMPT >>{self.facts}/ran; read x <{gate.path}; exit {code}"

    def await_(
        self,
        job: int,
        *ends: str,
        runs: tuple[int, ...] = (1,),
        hooks: tuple[int, ...] | None = None,
        cancelled: bool = False,
    ) -> None:
        """It ends, and this is what has to come of it; judged when the scene is over."""
        told = self.ask(f"ended {job}")
        for attempt in range(1, len(ends) + 1):
            self.ask(f"until {job}.{attempt} none")
        self.play.awaited.append(
            Awaited(job=job, ends=ends, runs=runs, hooks=runs if hooks is None else hooks, cancelled=cancelled, told=told)
        )

    # What there is to be seen.

    def runs(self, attempt: str) -> int:
        """How often a script has begun for it."""
        return self._lines("ran").count(attempt)

    def hooks(self, attempt: str) -> list[str]:
        """Those that have run for it, in order."""
        return [line.split()[0] for line in self._lines("hooks") if line.split()[1] == attempt]

    def _lines(self, name: str) -> list[str]:
        path = self.facts / name
        return path.read_text().splitlines() if path.exists() else []

    def neighbour_lives(self) -> bool:
        """The same process."""
        return self.alone or self.neighbour.liveness() is Liveness.ALIVE

    def copy_databases(self, to: Path) -> None:
        """As a backup has them."""
        to.mkdir(exist_ok=True)
        for name in DATABASES:
            (to / name).unlink(missing_ok=True)
            with closing(sqlite3.connect(self.agent.path / name)) as one, closing(sqlite3.connect(to / name)) as other:
                one.backup(other)

    def restore_databases(self, source: Path) -> None:
        """As one is restored: while no agent is there."""
        for name in DATABASES:
            for suffix in ("", "-wal", "-shm"):
                (self.agent.path / f"{name}{suffix}").unlink(missing_ok=True)
            (self.agent.path / name).write_bytes((source / name).read_bytes())
            (self.agent.path / name).chmod(0o600)


def cgroups() -> set[str]:
    """Of all steps and hooks of this run."""
    root = os.environ.get("SPURPROC_CGROUP_ROOT")
    below = () if root is None else cgroup_folder.below(Path(root))
    return {path for path, _ in below if "/steps/" in path or "/hooks/" in path}
