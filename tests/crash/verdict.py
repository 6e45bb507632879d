"""Whether what is said of a step is what happened to it, and whether anything is left of it that should not be."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spurproc.core.durable.journal import read_journal
from spurproc.core.durable.lock import FolderLock
from spurproc.errors import AlreadyGone
from spurproc.proto.journal_record import history_of
from spurproc.proto.step_folder import StateFolder
from tests.crash.points import HOST, SUPERVISOR
from tests.crash.scenes import CODE
from tests.crash.theatre import Run, Theatre, step_cgroups

_ONCE = ("exec", "prolog", "epilog")
_BOTH = {HOST, SUPERVISOR}
_FORCE = (9, 15)
_LEAVES_WITHIN_S = 10.0


def faults(run: Run, killed: set[str], answer: dict[str, Any], *, failed: bool) -> list[str]:
    """What is wrong. `killed`: who was, in all; `failed`: whether anybody was made to fail."""
    marks = Counter(_lines(run.stage.folder / "marks"))
    found = [f"{mark}: {marks[mark]} times" for mark in _ONCE if marks[mark] > 1]
    found += journal_faults(run, answer)
    found += end_faults(run, marks, killed, answer, failed=failed)
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def end_faults(run: Run, marks: Counter[str], killed: set[str], answer: dict[str, Any], *, failed: bool) -> list[str]:
    """The end against the marks, and the reason against who was killed."""
    kind, said = answer["kind"], f"it is said: {answer}, but {dict(marks)}, and {sorted(killed)} died"
    source = answer.get("source")
    forced = run.scene.killed or run.scene.ends_by_force or "kill_plan" in run.scene.spec or failed
    match kind:
        case None:
            return [] if not marks or run.scene.collected else [said]
        case "exited":
            right = answer["code"] == CODE and marks["exec"] == marks["released"] == 1 and _well_sourced(source, killed)
        case "signaled":
            right = forced and answer["signal"] in _FORCE and _well_sourced(source, killed)
        case "not-started":
            right = marks["exec"] == 0 and _reason_holds(run, answer.get("reason") or "", killed, failed=failed)
        case _:
            may_be = killed >= _BOTH or (failed and SUPERVISOR in killed)
            right = may_be and _reason_holds(run, answer.get("reason") or "", killed, failed=failed)
    return [] if right else [said]


def _well_sourced(source: str | None, killed: set[str]) -> bool:
    return source == "waited" or (killed >= _BOTH and source in ("pidfd", "zombie"))


def _reason_holds(run: Run, reason: str, killed: set[str], *, failed: bool) -> bool:
    """Each reason has a condition; one that is not known here is none."""
    events = {line.split('"')[3] for line in _journal(run)}
    blocked_or_missing = bool(run.scene.missing)
    conditions = {
        r"^nobody supervises it, and no leader of it was at its gate": bool(killed) or failed,
        r"^its supervisor ended before it had a leader at its gate": SUPERVISOR in killed or failed,
        r"^its supervisor ended before it opened the gate": SUPERVISOR in killed,
        r"^its supervisor and host ended before it was known whether": killed >= _BOTH and "launched" not in events,
        # The host lives, but had no room for what says so.
        r"^its supervisor ended before it was known whether": failed and SUPERVISOR in killed and "launched" not in events,
        r"^its supervisor and host ended before the leader did": killed >= _BOTH and "launched" in events,
        r"^nobody sent start within": "start_deadline_s" in run.scene.spec,
        r"^its prolog did not succeed": run.scene.prolog is not None,
        r"^it was (told to end|ended before its exec)": True,
        r"^its prolog .* nobody knows": SUPERVISOR in killed,
        r"^killed by SIG(KILL|TERM) before exec": True,
        r"^cannot ": failed or blocked_or_missing,
        r"^$": blocked_or_missing,
    }
    return any(holds and re.search(pattern, reason) for pattern, holds in conditions.items())


def _journal(run: Run) -> list[str]:
    try:
        with StateFolder.open(run.stage.state) as state, state.open_step(run.scene.id_of(run.stage)) as step:
            return [line.decode() for line in read_journal(step.folder)]
    except AlreadyGone:
        return []


def journal_faults(run: Run, answer: dict[str, Any]) -> list[str]:
    """One end, each hook begun and completed once, and nothing before what has to come before it."""
    lines = _journal(run)
    names = Counter(re.sub(r'"at":[^,}]*,?', "", line) if "hook" in line else line.split('"')[3] for line in lines)
    once = ("gate_opening", "launched", "exit_observed", "acknowledged")
    found = [f"journal: {names[name]} times {name}" for name in once if names[name] > 1]
    hooks = Counter((line.split('"')[3], re.search(r'"hook":"(\w+)"', line)[1]) for line in lines if '"hook":' in line)  # type: ignore[index]
    found += [f"journal: {count} times {name}" for name, count in hooks.items() if count > 1]
    if answer["kind"] is not None:
        end = history_of([line.encode() for line in lines], "journal").end
        if end is None or end.kind.value != answer["kind"]:
            found.append(f"journal: its end is {end}, and {answer} was told")
    return found


class Leftovers:
    """What there was before a run, and must not be there after it."""

    def __init__(self, theatre: Theatre, run: Run) -> None:
        self._theatre = theatre
        self._run = run
        self._cgroups = step_cgroups()

    def faults(self) -> list[str]:
        """Once the step is over. Waits for its supervisor to leave, and for its host to let go of it."""
        return [*self._processes(), *self._cgroup_faults(), *self._files(), *self._theatre.bystander.felt()]

    def _processes(self) -> list[str]:
        conductor = self._theatre.conductor
        found = []
        if not conductor.until(lambda: not conductor.living(SUPERVISOR, self._run.step), _LEAVES_WITHIN_S):
            found.append("its supervisor does not leave")
        return found + [what for host in conductor.living(HOST) if (what := self._kept_by(host.pid))]

    def _kept_by(self, host: int) -> str:
        most = self._theatre.idle_fds
        if not most or self._theatre.conductor.until(lambda: _fds(host) <= most, _LEAVES_WITHIN_S):
            return ""
        return f"the host has {_fds(host)} descriptors, {most} when idle: {_targets(host)}"

    def _cgroup_faults(self) -> list[str]:
        """A cgroup that nobody has written down is removed by whoever makes the next one."""
        made = any(stand.place.point == "make the cgroup" and stand.place.when == "after" for stand in self._run.conductor.passed)
        now = step_cgroups()
        left = [path for path, unwritten in now.items() if _is_left(path in self._cgroups, unwritten=unwritten, made=made)]
        return [f"left: cgroup {path}" for path in left]

    def _files(self) -> list[str]:
        """A folder that was never published has a free lock: whoever sweeps may remove it."""
        found = []
        with StateFolder.open(self._run.stage.state) as state:
            for name in state.names()[1]:
                with state.runtime.open_folder(name) as folder:
                    if folder.has("lock"):
                        lock = FolderLock.take(folder)
                        if lock is None:
                            found.append(f"left: {name} is locked")
                        else:
                            lock.close()
        return found


def _is_left(before: bool, *, unwritten: bool, made: bool) -> bool:
    return made if unwritten and before else not (unwritten or before)


def _fds(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return 0


def _targets(pid: int) -> Iterable[str]:
    with suppress(FileNotFoundError):
        return sorted(os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd"))
    return ()
