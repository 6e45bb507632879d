"""A target, held: the supervised step, and its processes as its records name them.

Loaded for a step alone: the client, and what that needs, would make any other call half as long again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spurproc.client.step import Step
from spurproc.client.step_processes import held_tree
from spurproc.core.observation import Observation
from spurproc.core.tree.members import ProcessTree
from spurproc.core.vantage import read_boot_id
from spurproc.inspect.target import StepTarget
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.step_folder import StateFolder

__all__ = ["HeldStep", "hold_step", "open_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStep:
    """A step, who runs it, and its tree: borrowed, and None where nothing of it is named or left."""

    step: Step
    descriptor: Descriptor | None
    tree: ProcessTree | None

    def observe(self) -> Observation:
        """Whether anything of it lives. Raises AlreadyGone once it was removed."""
        return self.step.status().liveness


def open_step(target: StepTarget) -> Step:
    """Raises AlreadyGone where there is none, and others as Step.open does."""
    return Step.open(target.state_dir, target.runtime_id)


@contextmanager
def hold_step(target: StepTarget) -> Iterator[HeldStep]:
    """Hold it for as long as the block runs. Raises as `open_step`, and what keeps its cgroup from being opened."""
    step = open_step(target)
    with StateFolder.open(target.state_dir) as state, state.open_step(target.runtime_id) as folder:
        descriptor = folder.descriptor()
        over = folder.history().emptied is not None or folder.launch().boot_id != read_boot_id()
    with held_tree(None if over else descriptor) as tree:
        yield HeldStep(step=step, descriptor=descriptor, tree=tree)
