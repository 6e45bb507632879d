"""Which launch of which step is meant: enough to find it again, and never another one that has taken its name."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import msgspec

from spurproc.core.durable.journal import sync_journal
from spurproc.errors import AlreadyGone, RecordInvalid, SpurprocError, from_errno
from spurproc.proto.codec import decode, version_of
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.journal_record import History
from spurproc.proto.launch_record import LAUNCH_LIMIT_BYTES, LAUNCH_NAME, LaunchRecord
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder, StepFolder

__all__ = ["OpenedStep", "StepPlace", "step_errors"]


class _Nonce(msgspec.Struct, frozen=True):
    """The part of a launch record that no other launch has."""

    capability: str
    runtime_id: RuntimeId


class OpenedStep:
    """The folder of a step, open for the moment of one request. Borrows both."""

    def __init__(self, state: StateFolder, step: StepFolder) -> None:
        self.state = state
        self.step = step

    @property
    def runtime_id(self) -> RuntimeId:
        """Which step it is."""
        return self.step.runtime_id

    @cached_property
    def launch(self) -> LaunchRecord:
        """What was to be run."""
        return self.step.launch()

    def descriptor(self) -> Descriptor | None:
        """Who runs it, as it stands now."""
        return self.step.descriptor()

    def history(self) -> History:
        """What has happened by now."""
        return self.step.history()

    def durable_history(self) -> History:
        """The same, for who tells it: an end in it is not told another way after a power cut."""
        history = self.step.history()
        if history.end is not None:
            sync_journal(self.step.folder)
        return history

    def check_named(self) -> None:
        """The last look before an act: its name still leads to this very folder. Raises AlreadyGone."""
        if not self.step.folder.is_named():
            raise AlreadyGone(errno.ESTALE, f"cannot find step {self.runtime_id}: its folder was removed meanwhile")


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A launch of a step by the state folder, its id and the nonce of that launch. Holds no descriptor."""

    state_dir: str
    runtime_id: RuntimeId
    nonce: str = field(repr=False)

    @classmethod
    def find(cls, state: StateFolder, runtime_id: RuntimeId) -> Self:
        """The launch that has this name now. Raises AlreadyGone where there is none, RecordInvalid where it cannot be read."""
        with _folder_of(state, runtime_id) as step:
            return cls.of(state, step)

    @classmethod
    def of(cls, state: StateFolder, step: StepFolder) -> Self:
        """The launch whose folder this is; borrows both. Raises as `find`."""
        return cls(state.path, step.runtime_id, _nonce_of(step))

    @contextmanager
    def opened(self) -> Iterator[OpenedStep]:
        """Its folder, for as long as the body takes. Raises AlreadyGone once it was removed, whoever has its name now.

        An OSError of the body, for want of descriptors, say, is raised as one of ours.
        """
        with step_errors(self.runtime_id), StateFolder.open(self.state_dir) as state, _folder_of(state, self.runtime_id) as step:
            if _nonce_of(step) != self.nonce:
                reason = "it was removed, and another was launched under its name"
                raise AlreadyGone(errno.ESTALE, f"cannot find step {self.runtime_id} in {self.state_dir!r}: {reason}")
            yield OpenedStep(state, step)


@contextmanager
def step_errors(runtime_id: RuntimeId) -> Iterator[None]:
    """What the body meets is told as ours, with the step: for want of descriptors or memory anything can fail."""
    try:
        yield
    except SpurprocError:
        raise
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "use", f"step {runtime_id}") from error


def _folder_of(state: StateFolder, runtime_id: RuntimeId) -> StepFolder:
    try:
        return state.open_step(runtime_id)
    except AlreadyGone as error:
        reason = "it was removed, or never launched"
        raise AlreadyGone(error.errno or errno.ENOENT, f"cannot find step {runtime_id} in {state.path!r}: {reason}") from None


def _nonce_of(step: StepFolder) -> str:
    content = step.folder.read_file(LAUNCH_NAME, LAUNCH_LIMIT_BYTES)
    where = f"{step.folder.path}/{LAUNCH_NAME}"
    version_of(content, where)
    found = decode(content, _Nonce, where)
    if found.runtime_id != step.runtime_id:
        raise RecordInvalid(where, f"it is of step {found.runtime_id}")
    return found.capability
