"""A kill plan, walked by a loop that goes on serving meanwhile, until nothing of the tree is left."""

from __future__ import annotations

import os
import select
import signal as _signal
import time
from collections.abc import Callable
from contextlib import suppress

from spurproc.core.cgroup.events import RECHECK_S
from spurproc.core.observation import Liveness
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.termination import KillPlan, Proof, prove, send_and_wake, survivors
from spurproc.errors import SpurprocError
from spurproc.stepd.loop import Loop

__all__ = ["PlanWalk", "childless"]

_HELD_AFTER_S = 5.0
"""Whoever has not ended so long after a signal without a time of its own is told of as what cannot be ended."""


def childless() -> bool:
    """ECHILD: all that ever descended from this process, a subreaper, has ended and was reaped. waitid(2)"""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _grace_s(step: tuple[int, float | None]) -> float:
    """How long it is waited after that step of a plan."""
    return _HELD_AFTER_S if step[1] is None else step[1]


class PlanWalk:
    """One walk at a time. `on_empty` gets the proof, once; `on_stuck` the survivors' description when the plan is over.

    `may_end`: whether the leader's end is recorded. A zombie counts as gone, and nothing is over while it still has to be asked.
    """

    def __init__(
        self,
        loop: Loop,
        tree: Callable[[], ProcessTree | None],
        on_empty: Callable[[Proof], None],
        on_stuck: Callable[[tuple[str, ...]], None],
        may_end: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._tree = tree
        self._on_empty = on_empty
        self._on_stuck = on_stuck
        self._may_end = may_end
        self._steps: list[tuple[int, float | None]] = []
        self._killing = False
        self._watched = -1
        self._walking = False
        self._due_s: tuple[float, float] | None = None
        """When the plan that is under way comes to its SIGKILL, and is over; None where none is, or something outlived it."""

    def begin(self, plan: KillPlan) -> None:
        """Walk `plan` from its first step; but one that is under way goes on, unless this one comes to its SIGKILL earlier.

        Of two that come to none it is the one that is over earlier. So whoever asks again, however often, puts nothing off.
        """
        now_s = time.monotonic()
        due_s = now_s + plan.kills_after_s, now_s + sum(map(_grace_s, plan.steps))
        if self._due_s is not None and self._due_s <= due_s:
            return
        self._due_s = due_s
        self._steps = list(plan.steps)
        self._killing = False
        self._walking = True
        if not self.look():
            self._watch_events()
            self._next_step()

    def look(self) -> bool:
        """Whether the tree is proven empty by now; if so, and a walk is under way, it is over."""
        if not self._walking or not self._may_end():
            return False
        proof = self._proof()
        if proof is Proof.NOT_EMPTY or (proof is Proof.NONE_FOUND and self._tree() is not None):
            return False
        self.stop()
        self._on_empty(proof)
        return True

    def _proof(self) -> Proof:
        tree = self._tree()
        if tree is None:
            return Proof.NO_DESCENDANTS if childless() else Proof.NOT_EMPTY
        if tree.subreaper is not None and childless():
            if tree.cgroup is None:
                return Proof.NO_DESCENDANTS
            if tree.cgroup.liveness() is Liveness.GONE:
                return Proof.CGROUP_EMPTY
        return prove(tree)

    def _next_step(self) -> None:
        if not self._steps:
            self._stuck()
            return
        step = self._steps.pop(0)
        self._killing = step[0] == _signal.SIGKILL
        self._send(step[0])
        self._loop.at("kill plan", _grace_s(step), self._step_over)
        if not self.look():
            self._loop.at("kill plan recheck", RECHECK_S, self._recheck)

    def _step_over(self) -> None:
        if not self.look() and self._walking:
            self._next_step()

    def _send(self, signal: int) -> None:
        """SIGKILL goes to the cgroup first: mostly that is all, and nobody has to be looked for in /proc behind it."""
        tree = self._tree()
        if tree is None:
            return
        with suppress(SpurprocError):
            if signal == _signal.SIGKILL and tree.cgroup is not None:
                self._loop.at("kill plan rest", 0, self._send_rest)
                tree.cgroup.kill()
            else:
                send_and_wake(tree, signal)

    def _send_rest(self) -> None:
        tree = self._tree()
        if not self.look() and tree is not None:
            with suppress(SpurprocError):
                send_and_wake(tree, _signal.SIGKILL)

    def _recheck(self) -> None:
        """A notification can be late or lost; SIGKILL is repeated for whoever was born meanwhile."""
        if self.look() or not self._walking:
            return
        if self._killing:
            self._send(_signal.SIGKILL)
        self._loop.at("kill plan recheck", RECHECK_S, self._recheck)

    def _stuck(self) -> None:
        """Told once; the looks go on, since what is stuck in the kernel may come out of it."""
        self._due_s = None
        tree = self._tree()
        self._on_stuck(() if tree is None else tuple(map(str, survivors(tree))))

    def _watch_events(self) -> None:
        tree = self._tree()
        if tree is None or tree.cgroup is None or self._watched >= 0:
            return
        with suppress(SpurprocError):
            self._watched = tree.cgroup.events().fileno()
            self._loop.watch(self._watched, select.EPOLLPRI | select.EPOLLET, self._events)

    def _events(self, _: int) -> None:
        self.look()

    def stop(self) -> None:
        """Walk no further. May be called twice."""
        self._walking = False
        self._due_s = None
        for name in ("kill plan", "kill plan rest", "kill plan recheck"):
            self._loop.cancel(name)
        if self._watched >= 0:
            self._loop.forget(self._watched)
            self._watched = -1
