"""The cells: at which place of which scene who is struck by what; and what came of each."""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from spurproc.stepd.table import Effect
from tests.crash.child import Child
from tests.crash.conductor import Place, Stand, let_go
from tests.crash.points import HOST, LAUNCHER, SUPERVISOR
from tests.crash.rows import ROW_OF
from tests.crash.scenes import SCENES, WITHIN_S
from tests.crash.theatre import Run, Theatre, have_host, struck_by_plan, told
from tests.crash.verdict import Leftovers, faults

VICTIMS = (
    (LAUNCHER,),
    (HOST,),
    (SUPERVISOR,),
    (LAUNCHER, HOST),
    (HOST, SUPERVISOR),
    (LAUNCHER, SUPERVISOR),
    (LAUNCHER, HOST, SUPERVISOR),
)
SIGKILL, ENOSPC, EIO, EMFILE, SHORT = "SIGKILL", "ENOSPC", "EIO", "EMFILE", "short write"
FAULTS = (SIGKILL, ENOSPC, EIO, EMFILE, SHORT)
_FAILS: dict[str, tuple[str, ...]] = {
    ENOSPC: ("write", "fsync", "fdatasync", "rename", "mkdir", "open"),
    EIO: ("write", "fsync", "fdatasync", "rename", "mkdir", "ftruncate", "open", "unlink", "rmdir"),
    EMFILE: ("open",),
    SHORT: ("write",),
}
"""Which call may say so."""
_TIMES = 3
_PASSES_WITHOUT_DESCRIPTORS = 12
_LAUNCHER_WITHIN_S = 1.5


@dataclass(frozen=True, slots=True)
class Cell:
    """One strike. `lasting`: the fault comes again, until it has come three times."""

    row: int
    victims: tuple[str, ...]
    fault: str
    scene: str
    place: Place
    lasting: bool = False

    def __str__(self) -> str:
        again = ", lasting" if self.lasting else ""
        return f"row {self.row}, {'+'.join(self.victims)}, {self.fault}{again}: {self.scene!r}: {self.place}"


def row_of(stand: Stand) -> int | None:
    """Of an act its own; of a write that of the act that it is a part of."""
    return ROW_OF.get(stand.place.act)


@cache
def places(theatre: Theatre, *, everywhere: bool) -> dict[int, list[tuple[str, Stand]]]:
    """By row; each once, in the first scene that passes it, or `everywhere`: in each scene, each time."""
    found: dict[int, list[tuple[str, Stand]]] = defaultdict(list)
    seen: set[tuple[object, ...]] = set()
    for scene, trace in theatre.traces().items():
        ended = False
        for stand in without_twins(trace):
            place, row = stand.place, row_of(stand)
            ended = ended or place.act == Effect.RECORD_EXIT_OBSERVED.value
            hook = row == ROW_OF[Effect.RUN_HOOK.value] and ended  # an epilog's are other places than a prolog's
            key = (place.role, place.act, place.when, place.point, hook, *((scene, place.nth) if everywhere else ()))
            again = place.nth > 1 and not everywhere  # how often may hang on who is quicker
            if row is not None and key not in seen and stand.kind != "move" and not again:
                seen.add(key)
                found[row].append((scene, stand))
    return found


def without_twins(trace: list[Stand]) -> Iterator[Stand]:
    """Behind one act and before the next is the same place, where the process does nothing in between."""
    following: dict[int, Stand] = {}
    kept = []
    for stand in reversed(trace):
        after = following.get(stand.pid)
        following[stand.pid] = stand
        twin = after is not None and stand.kind == after.kind == "act"
        if not (twin and stand.place.when == "after" and after is not None and after.place.when == "before"):
            kept.append(stand)
    return reversed(kept)


def cells(theatre: Theatre, row: int, victims: tuple[str, ...], fault: str, *, everywhere: bool = False) -> list[Cell]:
    """All of one row, one set of victims and one fault. Who stands at the place fails; the other victims are killed there."""
    found = []
    for scene, stand in places(theatre, everywhere=everywhere)[row]:
        place = stand.place
        if fault == SIGKILL:
            found.append(Cell(row, victims, fault, scene, place))
        elif place.role in victims and _may_fail(stand, fault):
            found.append(Cell(row, victims, fault, scene, place))
            if len(victims) == 1:
                found.append(Cell(row, victims, fault, scene, place, lasting=True))
    return found


def _may_fail(stand: Stand, fault: str) -> bool:
    if stand.kind == "write":
        return stand.place.point.partition(":")[2] in _FAILS[fault]
    return fault == EMFILE and stand.place.when == "before"


def _answer(cell: Cell) -> str:
    if cell.fault == SIGKILL:
        return "go"
    if cell.fault == SHORT:
        return "short"
    if cell.fault == EMFILE and ":" not in cell.place.point:
        return "nofile"
    return f"errno {getattr(errno, cell.fault)}"


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one cell. `killed`: whom the strike found there to kill. `wrong`: what does not hold, nothing as a rule."""

    cell: Cell
    killed: frozenset[str]
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((str(self.cell), *self.wrong))


@dataclass(slots=True)
class Tally:
    """What came of the cells, by row, victims and fault. `in_part`: one of each is played, not all."""

    in_part: bool
    played: dict[object, list[Played]] = field(default_factory=dict, repr=False)


def play(theatre: Theatre, state: Path, cell: Cell) -> Played:
    """Strike, and see what becomes of the step."""
    if cell.row == 1 and HOST in cell.victims:
        have_host(theatre, state)  # one from before; the launcher asks for it no sooner than in row 3
    run = Run(theatre, SCENES[cell.scene], state)
    left = Leftovers(theatre, run)
    killed: set[str] = set()
    watched = None if _answer(cell) == "nofile" else frozenset({cell.place.point})
    with run.played(let_go, watched) as launcher:
        wrong = _struck(run, cell, launcher, killed)
    if not wrong:  # what a supervisor could not remove goes with its folder
        wrong += [f"left: {what}" for what in run.collect() if what.startswith((f"{run.step}: ", "."))]
        wrong += left.faults()
    if wrong:
        wrong.append(run.trail())
    theatre.conductor.forget_ended()
    return Played(cell, frozenset(killed), tuple(wrong))


def _struck(run: Run, cell: Cell, launcher: Child, killed: set[str]) -> list[str]:
    """The strike itself, the rest of the launcher's life, and what a fresh client makes of it."""
    conductor, strike = run.conductor, _Strike(cell, run)
    conductor.rule = struck_by_plan(run, strike.answer)
    if not conductor.until(lambda: conductor.held is not None, WITHIN_S, launcher.fileno()):
        return [f"never reached, and the launcher says {launcher.answer}"] if cell.place.nth == 1 else []
    killed |= run.kill(set(cell.victims) - (set() if cell.fault == SIGKILL else {cell.place.role}))
    strike.struck = True
    conductor.release(_answer(cell))
    if not conductor.until(lambda: told(launcher), _LAUNCHER_WITHIN_S, launcher.fileno()):
        run.kill({LAUNCHER})  # it waits for what will not come; whatever it has done by now is all that it does
    strike.lifted = True
    run.lift()
    answer = run.resolve()
    if "raised" in answer:
        return [f"not resolved: {answer['trace'] or answer['why']}"]
    found = faults(run, run.killed, answer, failed=cell.fault != SIGKILL or bool(run.scene.struck))
    if answer["kind"] is not None and not answer["acknowledged"]:
        found.append("it cannot be acknowledged")
    return found


@dataclass(slots=True)
class _Strike:
    """Holds who comes to the place; afterwards, of a fault that lasts, fails it again."""

    cell: Cell
    run: Run
    struck: bool = False
    lifted: bool = False
    times: int = 1

    def answer(self, stand: Stand) -> str | None:
        place = self.cell.place
        if stand.step != self.run.step:
            return "go"
        if not self.struck:
            return None if stand.place == place and self.run.conductor.held is None else "go"
        if not self.cell.lasting or self.lifted or stand.place.role != place.role:
            return "go"
        return self._again(stand)

    def _again(self, stand: Stand) -> str:
        answer = _answer(self.cell)
        here = answer == "nofile" or (stand.place.point == self.cell.place.point and stand.place.when == "before")
        most = _PASSES_WITHOUT_DESCRIPTORS if answer == "nofile" else _TIMES
        if not here or self.times >= most:
            return "go"
        self.times += 1
        return answer
