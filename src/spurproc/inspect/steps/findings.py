"""What can be wrong with a step, told from its folder and its processes. Reads only; a lock is held for the moment of a look."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from spurproc.core.durable.journal import JOURNAL_LIMIT_BYTES, JOURNAL_NAME
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, RecordTooNew, SpurprocError
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.journal_record import History
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.owed import is_over
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import NEW_PREFIX, OLD_PREFIX, StateFolder, StepFolder
from spurproc.proto.takeover import NotYours, conclusion

__all__ = ["Finding", "Weight", "find_all", "what_comes"]

_LOOKER_WITHIN_S = 1.0
_BY_HOST = "a host takes it over, at the next launch or when somebody waits for it"


class Weight(enum.Enum):
    """How much it matters."""

    FAULT = "fault"
    """It should not be so, and somebody has to look at it."""
    OWED = "owed"
    """A crash left something to be done, which is done by itself once somebody asks."""
    LEFT = "left behind"
    """It harms nobody, and `gc` removes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`name`: in `<state_dir>/runtime`. `remedy`: what would be done, and by whom."""

    name: str
    weight: Weight
    what: str
    remedy: str


def find_all(state_dir: str) -> list[Finding]:
    """Everything, step by step. Raises where the state folder itself cannot be read or trusted."""
    found: list[Finding] = []
    with StateFolder.open(state_dir) as state:
        ids, others = state.names()
        for runtime_id in ids:
            found += _of_name(state, runtime_id)
        for name in others:
            found += _of_other(state, name)
    return found


def _of_name(state: StateFolder, runtime_id: RuntimeId) -> list[Finding]:
    name = str(runtime_id)
    try:
        with state.open_step(runtime_id) as step:
            return _Look(step).findings()
    except RecordTooNew as error:
        return [_fault(name, str(error), "nothing: the release that wrote it can read it")]
    except AlreadyGone as error:
        if not state.runtime.has(name):
            return []
        return [_fault(name, f"one of its files is missing: {error}", "remove it by hand, once nothing of it lives")]
    except SpurprocError as error:
        return [_fault(name, str(error), "nothing: it is left in place, and no other step is touched")]


def _of_other(state: StateFolder, name: str) -> list[Finding]:
    if not name.startswith((NEW_PREFIX, OLD_PREFIX)):
        return [_fault(name, "no step has such a name", "nothing: whoever put it there has to remove it")]
    try:
        with state.runtime.open_folder(name) as folder:
            lock = FolderLock.take(folder) if folder.has("lock") else None
            if lock is None and folder.has("lock"):
                return []  # its launch, or its removal, is under way
            if lock is not None:
                lock.close()
    except AlreadyGone:
        return []
    except SpurprocError as error:
        return [_fault(name, str(error), "nothing: it is left in place")]
    what = "a launch that was killed before it was published" if name.startswith(NEW_PREFIX) else "a removal that was killed"
    return [Finding(name=name, weight=Weight.LEFT, what=what, remedy="gc sweeps it")]


def _fault(name: str, what: str, remedy: str) -> Finding:
    return Finding(name=name, weight=Weight.FAULT, what=what, remedy=remedy)


def what_comes(found: ExitInfo | NotYours) -> str:
    """What a host that took the step over now would come to, in words."""
    match found:
        case NotYours.HOST_LIVES:
            return "the host that forked its supervisor lives, and records its end"
        case NotYours.LEADER_LIVES:
            return f"its leader lives: {_BY_HOST}, and records its end"
        case NotYours.UNSEEN:
            return f"{found.value}: {_BY_HOST}, if it can tell"
        case ExitInfo():
            reason = f"{found}; {found.reason}" if found.reason and found.reason not in str(found) else str(found)
            return f"{_BY_HOST}, and records its end: {reason}"


class _Look:
    """One look at one step. Borrows its folder."""

    def __init__(self, step: StepFolder) -> None:
        self._step = step
        self._name = str(step.runtime_id)
        self._launch: LaunchRecord = step.launch()
        self._descriptor: Descriptor | None = step.descriptor()
        self._history: History = step.history()

    def findings(self) -> list[Finding]:
        """In the order in which they matter."""
        held = self._is_locked()
        found = [*self._torn(held=held), *self._order()]
        found += self._unattended() if not held else self._attended()
        if is_over(self._launch, self._history):
            found += self._left_over()
        return found

    def _is_locked(self) -> bool:
        """Where the supervisor on record is gone, who holds it may only look: that one is waited for."""
        gone = self._descriptor is not None and self._lives(self._descriptor.supervisor) is Liveness.GONE
        lock = FolderLock.take_within(self._step.folder, _LOOKER_WITHIN_S if gone else 0.0)
        if lock is None:
            return True
        lock.close()
        return False

    def _torn(self, *, held: bool) -> list[Finding]:
        content = self._step.folder.read_file(JOURNAL_NAME, JOURNAL_LIMIT_BYTES)
        if held or not content or content.endswith(b"\n"):
            return []
        return [self._owed("the last line of its journal is torn", "the next writer cuts it off; no whole line is lost")]

    def _order(self) -> list[Finding]:
        """What no supervisor writes, whatever is killed."""
        history = self._history
        wrong = []
        if history.launched is not None and history.gate_opening is None:
            wrong.append("it is recorded as launched, and its gate was never opened")
        if history.acknowledged is not None and history.end is None:
            wrong.append("it is acknowledged, and has no end")
        if history.emptied is not None and history.end is None:
            wrong.append("its tree is recorded as empty, and it has no end")
        if history.launched is not None and (self._descriptor is None or self._descriptor.leader is None):
            wrong.append("it is recorded as launched, and no leader is named")
        return [_fault(self._name, what, "nothing: its records were changed by somebody else") for what in wrong]

    def _attended(self) -> list[Finding]:
        """Somebody holds the lock: its supervisor, if it is the one on record."""
        if self._descriptor is None or self._lives(self._descriptor.supervisor) is not Liveness.GONE:
            return []
        what = "its lock is held, and not by the supervisor on record, which is gone"
        return [self._owed(what, "a host records its end, or the holder's descriptor follows")]

    def _unattended(self) -> list[Finding]:
        if is_over(self._launch, self._history):
            return []
        if self._history.end is not None:
            return [self._owed("it has ended, and nobody empties its tree or runs its epilog", _BY_HOST)]
        found = conclusion(self._launch, self._descriptor, self._history, read_boot_id(), None)
        return [self._owed("nobody supervises it, and its end is not recorded", what_comes(found))]

    def _left_over(self) -> list[Finding]:
        found = []
        cgroup = None if self._descriptor is None else self._descriptor.cgroup
        if cgroup is not None and cgroup.liveness() is Liveness.ALIVE:
            found.append(_fault(self._name, f"it is over, and something lives in {cgroup.path}", "gc keeps it; end it by hand"))
        elif cgroup is not None and os.path.isdir(cgroup.path):
            found.append(
                self._finding(Weight.LEFT, f"its cgroup is still there, empty: {cgroup.path}", "gc removes it with the step")
            )
        if self._history.acknowledged is None:
            found.append(self._owed("its report: nobody has acknowledged its end", "it stays until somebody does"))
        return found

    @staticmethod
    def _lives(identity: ProcessIdentity) -> Liveness:
        return identity.liveness()

    def _owed(self, what: str, remedy: str) -> Finding:
        return self._finding(Weight.OWED, what, remedy)

    def _finding(self, weight: Weight, what: str, remedy: str) -> Finding:
        return Finding(name=self._name, weight=weight, what=what, remedy=remedy)
