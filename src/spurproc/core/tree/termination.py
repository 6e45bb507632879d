"""Ending a whole tree, step by step, until it is proven empty, and saying what could not be proven."""

from __future__ import annotations

import enum
import os
import select
import signal as _signal
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import Any

from spurproc.core.cgroup.events import RECHECK_S
from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.cgroup.sweep import check_signal
from spurproc.core.deadline import deadline_after, earlier, has_passed
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.members import Containment, ProcessTree, members
from spurproc.core.tree.process_walk import Descent, ProcessRow, proc_shows_all
from spurproc.core.tree.signalling import signal_tree
from spurproc.errors import InvalidArgument, SpurprocError

__all__ = [
    "KILL_ALL",
    "KillPlan",
    "Proof",
    "Survivor",
    "TerminationReport",
    "prove",
    "send_and_wake",
    "survivors",
    "terminate_tree",
]

_MAX_POLLED = 256
_LOOK_S = 0.02


class Proof(enum.Enum):
    """What is known about the tree's emptiness."""

    CGROUP_EMPTY = "cgroup empty"
    """"populated 0", or removed, and the leader is gone."""
    NO_DESCENDANTS = "no descendants"
    """The subreaper lives, and two walks in a row found nothing below it in a /proc that hides nobody."""
    NONE_FOUND = "none found"
    """Nobody was found, but members could hide: a setsid(2) leaves a process group unseen. Not a proof."""
    NOT_EMPTY = "not empty"
    """Members live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPlan:
    """Which signals, and how many seconds the tree is given after each; None: as long as it takes. Only the last may be None."""

    steps: tuple[tuple[int, float | None], ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidArgument("cannot use a kill plan without steps")
        for place, (signal, grace_s) in enumerate(self.steps):
            if check_signal(signal) == 0 or (grace_s is not None and not grace_s >= 0):
                raise InvalidArgument(f"cannot use kill plan step {(signal, grace_s)!r}")
            if grace_s is None and place + 1 < len(self.steps):
                raise InvalidArgument("cannot use a kill plan that waits for ever before its last step")

    @property
    def kills_after_s(self) -> float:
        """How long after its beginning its first SIGKILL comes; infinity where it has none."""
        waited_s = 0.0
        for signal, grace_s in self.steps:
            if signal == _signal.SIGKILL:
                return waited_s
            waited_s += grace_s or 0.0
        return float("inf")

    def after(self, elapsed_s: float) -> KillPlan:
        """What is left of it so long after its beginning, the step that stands then again; its last one is always left."""
        if not elapsed_s > 0:
            return self
        steps = list(self.steps)
        while len(steps) > 1 and (steps[0][1] or 0.0) <= elapsed_s:
            elapsed_s -= steps.pop(0)[1] or 0.0
        signal, grace_s = steps[0]
        return KillPlan(steps=((signal, None if grace_s is None else max(0.0, grace_s - elapsed_s)), *steps[1:]))

    @classmethod
    def default(cls) -> KillPlan:
        """SIGTERM, 10 seconds, SIGKILL until gone."""
        return cls(steps=((_signal.SIGTERM, 10.0), (_signal.SIGKILL, None)))


KILL_ALL = KillPlan(steps=((_signal.SIGKILL, None),))
"""At once, until gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A member that lives on.

    `state` is the letter of proc_pid_stat(5), `wait_channel` where it sleeps in the kernel, if told.
    """

    pid: int
    state: str
    wait_channel: str
    name: str

    def __str__(self) -> str:
        where = f" in {self.wait_channel}" if self.wait_channel else ""
        return f"process {self.pid} ({self.name!r}, state {self.state}{where})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationReport:
    """What `terminate_tree` did.

    `steps` are those that were walked; `survivors` the members seen to live at the end.
    """

    containment: Containment
    proof: Proof
    steps: tuple[SignalReport, ...]
    survivors: tuple[Survivor, ...]

    @property
    def empty(self) -> bool:
        """Whether it is proven that nothing of the tree lives."""
        return self.proof in (Proof.CGROUP_EMPTY, Proof.NO_DESCENDANTS)

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`."""
        return {
            "empty": self.empty,
            "proof": self.proof.value,
            "containment": self.containment.value,
            "steps": [step.to_json() for step in self.steps],
            "survivors": [asdict(survivor) for survivor in self.survivors],
        }


def terminate_tree(tree: ProcessTree, plan: KillPlan | None = None, *, timeout_s: float | None = None) -> TerminationReport:
    """Walk the kill plan until the tree is proven empty, or the plan or `timeout_s` is over. Blocks until then.

    Each step signals the tree, then thaws it and continues it, so that frozen and stopped members act on the signal too. SIGKILL
    is repeated for whoever is born or moved in meanwhile. An unbounded last step ends early when everybody left refuses it.
    Raises SignalRefused, before anything is done, when the tree holds the caller.
    """
    deadline = deadline_after(timeout_s)
    reports: list[SignalReport] = []
    proof = prove(tree)
    for signal, grace_s in (plan or KillPlan.default()).steps:
        if proof is not Proof.NOT_EMPTY or has_passed(deadline):
            break
        report, proof = _take_step(tree, signal, earlier(deadline, grace_s), bounded=grace_s is not None)
        reports.append(report)
    return TerminationReport(
        containment=tree.containment,
        proof=proof,
        steps=tuple(reports),
        survivors=survivors(tree) if proof is Proof.NOT_EMPTY else (),
    )


def _take_step(tree: ProcessTree, signal: int, deadline: float | None, *, bounded: bool) -> tuple[SignalReport, Proof]:
    """`bounded`: the step has a time of its own, in which those who refuse the signal may end by themselves."""
    last = report = send_and_wake(tree, signal)
    while True:
        proof = prove(tree)
        refused_by_all = bool(last.refused) and not last.signalled
        if proof is not Proof.NOT_EMPTY or has_passed(deadline) or (not bounded and refused_by_all):
            return report, proof
        _await_change(tree, deadline)
        if signal == _signal.SIGKILL and prove(tree) is Proof.NOT_EMPTY:
            last = send_and_wake(tree, signal)


def send_and_wake(tree: ProcessTree, signal: int) -> SignalReport:
    """One step of a kill plan: the signal, and whatever lets frozen and stopped members act on it. Raises as `signal_tree`."""
    report = signal_tree(tree, signal)
    if tree.cgroup is not None:
        with suppress(SpurprocError):
            tree.cgroup.thaw()
    if signal not in (_signal.SIGKILL, _signal.SIGCONT):
        signal_tree(tree, _signal.SIGCONT)
    return report


def prove(tree: ProcessTree) -> Proof:
    """What can be said about the tree now. Reads only; cheapest first."""
    cgroup = None if tree.cgroup is None else tree.cgroup.liveness()
    if cgroup is Liveness.ALIVE or tree.leader_liveness() is Liveness.ALIVE:
        return Proof.NOT_EMPTY
    if tree.subreaper is not None:
        return _prove_descent(tree, Descent(tree.subreaper), cgroup)
    if cgroup is Liveness.GONE and tree.joined:
        return Proof.CGROUP_EMPTY if tree.leader_liveness() is Liveness.GONE else Proof.NONE_FOUND
    return Proof.NOT_EMPTY if members(tree) else Proof.NONE_FOUND


def _prove_descent(tree: ProcessTree, descent: Descent, cgroup: Liveness | None) -> Proof:
    # One walk can miss a child born behind it whose parent ended before it; the next one sees that child.
    if descent.find() or descent.find() or (cgroup is None and members(tree)):
        return Proof.NOT_EMPTY
    if cgroup is Liveness.GONE and tree.joined and tree.leader_liveness() is Liveness.GONE:
        return Proof.CGROUP_EMPTY
    seen = descent.root_lives() and proc_shows_all()
    return Proof.NO_DESCENDANTS if cgroup is None and seen else Proof.NONE_FOUND


def _await_change(tree: ProcessTree, deadline: float | None) -> None:
    """Block until a populated cgroup's events change, else until the members that are seen have ended; at most RECHECK_S."""
    until = earlier(deadline, RECHECK_S)
    if tree.cgroup is not None and tree.cgroup.liveness() is Liveness.ALIVE:
        with suppress(SpurprocError):
            tree.cgroup.events().wait(tree.cgroup.events().is_empty, until)
            return
    with ExitStack() as held:
        poll = select.poll()
        waiting = _hold(tree, held)
        for pidfd in waiting:
            poll.register(pidfd, select.POLLIN)
        if not waiting:
            poll.poll(_LOOK_S * 1000)
        while waiting and not has_passed(until):
            for pidfd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000):
                poll.unregister(pidfd)
                waiting.discard(pidfd)


def _hold(tree: ProcessTree, held: ExitStack) -> set[int]:
    """Pidfds of the members that are seen, not too many at once; none where pidfds cannot be polled."""
    pidfds: set[int] = set()
    leader = None if tree.leader is None else tree.leader.pidfd
    if leader is not None and leader.liveness() is Liveness.ALIVE and Facilities.current().pidfd_open:
        pidfds.add(leader.fileno())
    for row in members(tree)[:_MAX_POLLED] if Facilities.current().pidfd_open else ():
        with suppress(SpurprocError):
            pidfds.add(held.enter_context(Pidfd.open(row.pid)).fileno())
    return pidfds


def survivors(tree: ProcessTree) -> tuple[Survivor, ...]:
    """The members that are seen to live now, with what they wait for in the kernel."""
    return tuple(map(_survivor, members(tree)))


def _survivor(row: ProcessRow) -> Survivor:
    channel = _read_proc(row.pid, "wchan")
    return Survivor(
        pid=row.pid,
        state=row.state,
        wait_channel="" if channel == "0" else channel,
        name=_read_proc(row.pid, "comm"),
    )


def _read_proc(pid: int, name: str) -> str:
    """A one-line file of `/proc/PID`; empty when it may not be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return os.fsdecode(file.read()).rstrip("\n")
    except OSError:
        return ""
