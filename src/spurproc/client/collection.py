"""Removing the steps that nobody needs any more, and what crashes have left beside them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass

from spurproc.client.removal import delete_folder, remove_under_lock, why_not_over
from spurproc.core.deadline import checked_seconds
from spurproc.core.durable.journal import JOURNAL_NAME
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import AlreadyGone, InvalidArgument, SpurprocError
from spurproc.proto.launch_record import LAUNCH_NAME
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import NEW_PREFIX, OLD_PREFIX, StateFolder, StepFolder

__all__ = ["GcReport", "KeptFolder", "gc", "sweep"]

_BEGINNING_S = 60.0
"""A launcher that has made its folder has its lock, and a launch record in it, long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFolder:
    """A folder that stays, and why. `name`: in `<state_dir>/runtime`; of a step its id."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What `gc` did. `removed`: steps. `swept`: what launches and removals that were killed had left. `kept`: all else."""

    removed: tuple[RuntimeId, ...]
    swept: tuple[str, ...]
    kept: tuple[KeptFolder, ...]


def gc(state_dir: str | os.PathLike[str], older_than_s: float = 0.0, *, only: Collection[RuntimeId] | None = None) -> GcReport:
    """Remove the steps that are acknowledged, and what killed launches and removals have left behind.

    A step goes once it is acknowledged, nothing is owed, its supervisor is gone, and its journal was not written to for
    `older_than_s`, by the wall clock; 0: at once. What is left of its cgroups goes with it. Nothing that runs is touched, no
    link is followed, and what cannot be read is kept and told. `only`: look at these steps, and at nothing else. Raises as
    `adopt`.
    """
    if not checked_seconds("older_than_s", older_than_s) >= 0:
        raise InvalidArgument(f"older_than_s: {older_than_s!r} is below 0")
    with StateFolder.open(state_dir) as state:
        collection = _Collection(state, older_than_s)
        ids, others = state.names() if only is None else (only, ())
        for runtime_id in ids:
            collection.consider(runtime_id)
        for name in others:
            collection.sweep(name)
    return GcReport(removed=tuple(collection.removed), swept=tuple(collection.swept), kept=tuple(collection.kept))


def sweep(state_dir: str | os.PathLike[str]) -> GcReport:
    """Remove what killed launches and removals have left behind, however lately, and look at no step.

    For who knows that nobody launches there: of a launch that has made its folder and not taken its lock yet, the folder goes.
    Raises as `adopt`.
    """
    with StateFolder.open(state_dir) as state:
        collection = _Collection(state, 0.0, beginning_s=0.0)
        for name in state.names()[1]:
            collection.sweep(name)
    return GcReport(removed=(), swept=tuple(collection.swept), kept=tuple(collection.kept))


class _Collection:
    """One run. Borrows the state folder."""

    def __init__(self, state: StateFolder, older_than_s: float, *, beginning_s: float = _BEGINNING_S) -> None:
        self._state = state
        self._older_than_s = older_than_s
        self._beginning_s = beginning_s
        self.removed: list[RuntimeId] = []
        self.swept: list[str] = []
        self.kept: list[KeptFolder] = []

    def consider(self, runtime_id: RuntimeId) -> None:
        """A published step."""
        try:
            with self._state.open_step(runtime_id) as step:
                reason = self._why_kept(step) or self._remove(step)
        except SpurprocError as error:
            if isinstance(error, AlreadyGone) and not self._state.runtime.has(str(runtime_id)):
                return  # by somebody else meanwhile
            reason = str(error)
        if reason:
            self.kept.append(KeptFolder(name=str(runtime_id), reason=reason))
        else:
            self.removed.append(runtime_id)

    def _why_kept(self, step: StepFolder) -> str:
        """Empty for one that may go."""
        reason = why_not_over(step)
        if not reason and self._older_than_s > 0 and _age_s(step.folder, JOURNAL_NAME) < self._older_than_s:
            return f"it was written to within {self._older_than_s:g} s"
        return reason

    def _remove(self, step: StepFolder) -> str:
        return remove_under_lock(self._state, step, self._why_kept)

    def sweep(self, name: str) -> None:
        """Anything else."""
        if not name.startswith((NEW_PREFIX, OLD_PREFIX)):
            self.kept.append(KeptFolder(name=name, reason="no step has such a name"))
            return
        try:
            with self._state.runtime.open_folder(name) as folder:
                reason = self._sweep(folder, name)
        except SpurprocError as error:
            if isinstance(error, AlreadyGone) and not self._state.runtime.has(name):
                return
            reason = str(error)
        if reason:
            self.kept.append(KeptFolder(name=name, reason=reason))
        else:
            self.swept.append(name)

    def _sweep(self, folder: PrivateFolder, name: str) -> str:
        """Empty where it is gone now. Who makes it holds its lock from its beginning, who deletes it to its end."""
        if not folder.has("lock"):
            return self._sweep_bare(folder, name)
        lock = FolderLock.take(folder)
        if lock is None:
            return "its lock is held"
        with lock:
            if not folder.is_named():
                raise AlreadyGone(2, f"the folder {folder.path!r} was renamed")
            if name.startswith(NEW_PREFIX) and not folder.has(LAUNCH_NAME) and self._is_young(folder):
                return "its launch may be beginning"
            delete_folder(folder)
        return ""

    def _sweep_bare(self, folder: PrivateFolder, name: str) -> str:
        if name.startswith(NEW_PREFIX) and self._is_young(folder):
            return "its launch may be beginning"
        folder.remove()  # what is in it without a lock is not ours
        return ""

    def _is_young(self, folder: PrivateFolder) -> bool:
        """By the wall clock; one that comes from the future was made before that was set back."""
        return abs(time.time() - os.fstat(folder.fileno()).st_mtime) < self._beginning_s


def _age_s(folder: PrivateFolder, name: str) -> float:
    return time.time() - os.stat(name, dir_fd=folder.fileno(), follow_symlinks=False).st_mtime
