"""A target as a tree: what holds it together, whether it lives, and how to name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spurproc.command_line.answer import Cell
from spurproc.core.observation import Observation
from spurproc.core.tree.members import ProcessTree
from spurproc.inspect.held import HeldFolder, HeldProcess, open_folder, open_process
from spurproc.inspect.provenance import (
    containment_fields,
    containment_row,
    process_fields,
    process_rows,
    run_fields,
    run_rows,
    step_containment_fields,
    step_containment_rows,
    step_fields,
    step_rows,
)
from spurproc.inspect.target import FolderTarget, StepTarget, Target

if TYPE_CHECKING:
    from spurproc.inspect.held_step import HeldStep

__all__ = ["TreeSubject", "open_tree"]

_BELOW_PROCESS = "what descends from it, and its process group and session where it leads them"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSubject:
    """A tree, borrowed from what holds it. `find`: its parts now, None where nobody of it is named."""

    name: str
    find: Callable[[], ProcessTree | None]
    observe: Callable[[], Observation]
    fields: dict[str, Any]
    rows: list[tuple[str, Cell]]


@contextmanager
def open_tree(target: Target) -> Iterator[TreeSubject]:
    """Hold the target for as long as the block runs. Raises as `open_process`, `open_folder` and `hold_step` do."""
    if isinstance(target, StepTarget):
        from spurproc.inspect.held_step import hold_step  # noqa: PLC0415 - see there

        with hold_step(target) as step:
            yield _of_step(target, step)
    elif isinstance(target, FolderTarget):
        with open_folder(target) as folder:
            yield _of_folder(str(target), folder)
    else:
        with open_process(target) as process:
            yield _of_process(str(target), process)


def _of_process(name: str, held: HeldProcess) -> TreeSubject:
    fields = {"target": process_fields(held), "containment": {"kind": "none", "provenance": _BELOW_PROCESS}}
    rows = [*process_rows(held), ("members", _BELOW_PROCESS)]
    return TreeSubject(name=name, find=held.tree, observe=held.identity.observe, fields=fields, rows=rows)


def _of_folder(name: str, held: HeldFolder) -> TreeSubject:
    containment = held.run.containment
    fields = {"target": run_fields(held), "containment": containment_fields(containment)}
    rows = [*run_rows(held), containment_row(containment)]
    return TreeSubject(name=name, find=held.tree, observe=held.run.observe, fields=fields, rows=rows)


def _of_step(target: StepTarget, held: HeldStep) -> TreeSubject:
    fields = {"target": step_fields(target), "containment": step_containment_fields(held.descriptor)}
    rows = [*step_rows(target), *step_containment_rows(held.descriptor)]
    return TreeSubject(name=str(target), find=lambda: held.tree, observe=held.observe, fields=fields, rows=rows)
