"""Acts on a step that nobody supervises: straight on its processes, by what its records say."""

from __future__ import annotations

import errno
import signal as _signal
from collections.abc import Callable
from typing import TypeVar

from spurproc.client.act import StepAct, nobody
from spurproc.client.place import OpenedStep
from spurproc.client.step_processes import held_tree
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, terminate_tree
from spurproc.core.vantage import read_boot_id
from spurproc.errors import Busy

__all__ = ["resume_directly", "signal_directly", "suspend_directly", "terminate_directly"]

T = TypeVar("T")


def signal_directly(opened: OpenedStep, number: int) -> StepAct:
    """One signal to all that can be found of it. Nobody there is success."""
    report = _on_tree(opened, "signal", lambda tree: signal_tree(tree, number))
    return StepAct(runtime_id=opened.runtime_id, supervised=False, signals=report or nobody(number))


def terminate_directly(opened: OpenedStep, plan: KillPlan | None, timeout_s: float | None, begun_s_ago: float) -> StepAct:
    """Walk what is left of the kill plan, and block meanwhile."""
    walked = (plan or opened.launch.kill_plan).after(begun_s_ago)
    report = _on_tree(opened, "terminate", lambda tree: terminate_tree(tree, walked, timeout_s=timeout_s))
    return StepAct(runtime_id=opened.runtime_id, supervised=False, termination=report)


def suspend_directly(opened: OpenedStep) -> StepAct:
    """Freeze its cgroup, and wait until it is; SIGSTOP where there is none."""
    return _freeze_or_thaw(opened, "suspend", _suspend)


def resume_directly(opened: OpenedStep) -> StepAct:
    """Thaw its cgroup; SIGCONT where there is none."""
    return _freeze_or_thaw(opened, "resume", _resume)


def _freeze_or_thaw(opened: OpenedStep, verb: str, act: Callable[[ProcessTree], None]) -> StepAct:
    if opened.history().end is not None:
        raise Busy(errno.EBUSY, f"cannot {verb} step {opened.runtime_id}: it has ended")

    def noted(tree: ProcessTree) -> bool:
        act(tree)
        return True

    if not _on_tree(opened, verb, noted):
        raise Busy(errno.EBUSY, f"cannot {verb} step {opened.runtime_id}: it has no process")
    return StepAct(runtime_id=opened.runtime_id, supervised=False)


def _suspend(tree: ProcessTree) -> None:
    if tree.cgroup is None:
        signal_tree(tree, _signal.SIGSTOP)
    else:
        tree.cgroup.freeze()


def _resume(tree: ProcessTree) -> None:
    if tree.cgroup is None:
        signal_tree(tree, _signal.SIGCONT)
    else:
        tree.cgroup.thaw()


def _on_tree(opened: OpenedStep, verb: str, act: Callable[[ProcessTree], T]) -> T | None:
    """Do it, after a last look that all is still as it was read; None where nothing of it is left.

    The handles are opened first: what they hold is the cgroup of that inode and the process of that identity, and no other.
    """
    history, descriptor = opened.history(), opened.descriptor()
    if history.emptied is not None or opened.launch.boot_id != read_boot_id():
        return None
    if descriptor is None and history.end is None:
        raise Busy(errno.EAGAIN, f"cannot {verb} step {opened.runtime_id}: nobody supervises it yet, and no process is recorded")
    with held_tree(descriptor) as tree:
        if tree is None:
            return None
        opened.check_named()
        if opened.descriptor() != descriptor:
            raise Busy(errno.EAGAIN, f"cannot {verb} step {opened.runtime_id}: another supervisor takes it over just now")
        return act(tree)
