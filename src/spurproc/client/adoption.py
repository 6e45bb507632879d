"""The steps of a state folder, for who has not launched them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from spurproc.client.place import StepPlace
from spurproc.client.step import Step
from spurproc.errors import AlreadyGone, InvalidArgument, RecordInvalid, SpurprocError
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import NEW_PREFIX, OLD_PREFIX, StateFolder

__all__ = ["Adoption", "RefusedFolder", "adopt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFolder:
    """What stands among the steps and is none that can be used. Left as it is: somebody has to look at it.

    `name`: in `<state_dir>/runtime`. `error`: why; RecordTooNew for what a later release has written.
    """

    name: str
    error: SpurprocError


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a state folder holds: the steps that can be used, in the order of their ids, and whatever cannot."""

    steps: tuple[Step, ...]
    refused: tuple[RefusedFolder, ...]


def adopt(state_dir: str | os.PathLike[str]) -> Adoption:
    """All steps of a state folder, whoever launched them, running or over. Does not block.

    Only who they are is read, nobody is asked and no lock is taken: their supervisors are reached when a step is used. One bad
    folder stops nothing, and is told. Raises AlreadyGone where there is no state folder, for that is not the same as one without
    steps, and NotPermitted where it is not private and ours.
    """
    steps, refused = [], []
    with StateFolder.open(state_dir) as state:
        ids, others = state.names()
        for runtime_id in ids:
            try:
                steps.append(_adopted(state, runtime_id))
            except AlreadyGone:
                if state.runtime.has(str(runtime_id)):
                    refused.append(_half(state, runtime_id))
            except SpurprocError as error:
                refused.append(RefusedFolder(name=str(runtime_id), error=error))
    refused += [_stranger(name) for name in others if not name.startswith((NEW_PREFIX, OLD_PREFIX))]
    return Adoption(steps=tuple(steps), refused=tuple(refused))


def _adopted(state: StateFolder, runtime_id: RuntimeId) -> Step:
    with state.open_step(runtime_id) as step:
        if not step.folder.has("lock"):
            raise RecordInvalid(step.folder.path, "it has no lock")
        step.descriptor()
        step.history()
        return Step(StepPlace.of(state, step))


def _stranger(name: str) -> RefusedFolder:
    return RefusedFolder(name=name, error=InvalidArgument(f"cannot adopt {name!r:.200}: no step has such a name"))


def _half(state: StateFolder, runtime_id: RuntimeId) -> RefusedFolder:
    where = f"{state.runtime.path}/{runtime_id}"
    return RefusedFolder(name=str(runtime_id), error=RecordInvalid(where, "one of its files is missing"))
