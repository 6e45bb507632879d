"""The cells of the matrix, and what came of each: judged by what jobs and hooks have said themselves, and by what is left."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from spurproc.agent.attempts.effect import Effect
from tests.agent_crash.places import CUT_SHORT, commits
from tests.agent_crash.points import HOST, SUPERVISOR
from tests.agent_crash.scenes import SCENES
from tests.agent_crash.stage import NEIGHBOUR, Awaited, Cell, Stage, cgroups
from tests.agents import NOTHING_LEFT

VICTIMS: tuple[tuple[str, ...], ...] = ((), (HOST,), (SUPERVISOR,), (HOST, SUPERVISOR))
"""Who is killed with the agent."""
_NEIGHBOURS = {"steps": ["1.1.batch"], "spool": [NEIGHBOUR], "scratch": [NEIGHBOUR], "hooks": ["1.1.prolog"]}
_RUNS = {NEIGHBOUR: {"state": "running", "held": None}}


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one cell. `wrong`: what does not hold, nothing as a rule."""

    cell: Cell
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((str(self.cell), *self.wrong))


def all_cells(victims: tuple[str, ...]) -> list[Cell]:
    """All of one set of victims. Nothing of a hook, or of a step that is not there yet, is left for others to be killed in."""
    return [
        Cell(name, place, when, victims)
        for name, scene in SCENES.items()
        for place in scene.places
        for when in ("before", "after")
    ]


_LAUNCH_CUT = (
    Cell("ends", "client:client.launch._write_launch", "after"),
    Cell("ends", "client:client.launch._renamed", "after"),
    Cell("ends", "client:client.launch._send", "after"),
)


def some_cells(victims: tuple[str, ...]) -> list[Cell]:
    """Each effect and each commit once, before it or after it, in the first scene that passes it; of more victims a few."""
    wanted = {*(effect.name for effect in Effect), *commits()}
    found: dict[str, Cell] = {}
    for name, scene in SCENES.items():
        for place in scene.places:
            if place in wanted and place not in found:
                found[place] = Cell(name, place, ("before", "after")[len(found) % 2], victims)
    cells = list(found.values())
    return cells[::12] if victims else [*_LAUNCH_CUT, *cells]


def play(stage: Stage, cell: Cell) -> Played:
    """Strike, and see what becomes of the jobs."""
    scene = SCENES[cell.scene]
    try:
        stage.begin(cell, at_start=scene.at_start)
        scene.act(stage)
        return Played(cell, tuple(_faults(stage)))
    except (AssertionError, OSError) as error:
        return Played(cell, (f"{type(error).__name__}: {error}",))


def _faults(stage: Stage) -> Iterator[str]:
    if not stage.play.crashed:
        yield "never reached"
    for awaited in stage.play.awaited:
        yield from _job_faults(stage, awaited)
    yield from _left(stage)
    yield from stage.bystander.felt()


def _job_faults(stage: Stage, awaited: Awaited) -> Iterator[str]:
    """Its history is what was awaited. Where its supervisor and its witness were killed its end may be lost: it is unknown."""
    history = stage.ask(f"history {awaited.job}")
    if len(history) != len(awaited.ends):
        yield f"job {awaited.job}: its history is {history}"
    blames_nobody = awaited.told["end"].endswith("at stage GATE") and not awaited.told["fault"]
    if awaited.told["cancelled"] is not awaited.cancelled or blames_nobody:
        yield f"job {awaited.job}: {awaited.told}"
    for number, (told, end, runs, hooks) in enumerate(zip(history, awaited.ends, awaited.runs, awaited.hooks, strict=False), 1):
        attempt = f"{awaited.job}.{number}"
        ran = stage.runs(attempt)
        if told is None or not told.startswith(tuple(_allowed(end, ran, stage.play.cell))):
            yield f"attempt {attempt}: {told!r}, not {end!r}; it has run {ran} times"
        if ran > runs or (told == end and ran != runs):
            yield f"attempt {attempt} has run {ran} times, not {runs}"
        wanted = ["prolog", "epilog"] * hooks
        if stage.hooks(attempt) != wanted:
            yield f"attempt {attempt}: its hooks were {stage.hooks(attempt)}"


def _allowed(end: str, ran: int, cell: Cell) -> list[str]:
    """Who is killed between a step's name and the word to start it has not run it, and says so; it is the node's fault then."""
    if (cell.place, cell.when) not in CUT_SHORT and SUPERVISOR not in cell.victims:
        return [end]
    lost = ["unknown"] if {HOST, SUPERVISOR} <= {*cell.victims} else []
    return [end, *lost, *([] if ran else ["not started: ended before exec at stage GATE"])]


def _left(stage: Stage) -> Iterator[str]:
    """Nothing but the neighbour, who has felt nothing."""
    if not stage.neighbour_lives():
        yield "the neighbour does not live"
    runs, claims, folders = ({}, {}, NOTHING_LEFT) if stage.alone else (_RUNS, {NEIGHBOUR: [0]}, _NEIGHBOURS)
    for what, wanted in (("attempts", runs), ("claims", claims), ("drains", []), ("held", [])):
        answer = stage.ask(what)
        if answer != wanted:
            yield f"{what}: {answer}"
    if stage.agent.folders() != folders:
        yield f"left: {stage.agent.folders()}"
    if cgroups() != stage.cgroups:
        yield f"left: {sorted(cgroups() - stage.cgroups)}"


class Plays:
    """Cells, one after the other, on as few stages as may be: one that was left as it was before is played on again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made = itertools.count(1)
        self.played: list[Played] = []

    def run(self, cells: Iterable[Cell]) -> None:
        """All of them."""
        for alone, group in groupby(cells, key=lambda cell: SCENES[cell.scene].alone):
            waiting = list(group)
            while waiting:
                waiting = self._on_one_stage(waiting, alone=alone)

    def _on_one_stage(self, cells: list[Cell], *, alone: bool) -> list[Cell]:
        """Those that are left, once one has gone wrong."""
        with Stage(self._path / f"stage-{next(self._made)}", alone=alone) as stage:
            for at, cell in enumerate(cells, 1):
                played = play(stage, cell)
                self.played.append(played)
                print(played if played.wrong else f"{played.cell}: held", flush=True)
                if played.wrong:
                    self.played[-1] = Played(cell, (*played.wrong, stage.agent.log.read_text()[-6000:]))
                    return cells[at:]
            wrong = stage.end()
            if wrong:
                self.played.append(Played(cells[-1], tuple(wrong)))
        return []

    @property
    def wrong(self) -> list[Played]:
        """Those of which something does not hold."""
        return [each for each in self.played if each.wrong]
