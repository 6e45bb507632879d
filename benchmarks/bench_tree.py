"""What does one signal to every member of a tree of a thousand cost?"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from functools import partial

import psutil

from benchmarks.bare import function
from benchmarks.cgroup_home import NONE_HERE, fresh_cgroup
from benchmarks.measure import Contender, Figure, Start, absent, each_us, interleave
from benchmarks.members import Tree, tree
from benchmarks.peers import lacking, pidfd_package
from benchmarks.scale import Scale
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.signalling import signal_tree

ASK = "signal 0"
IGNORED = "SIGTERM that all ignore"
HANDLED = "SIGTERM that all handle"
OURS = "signal_tree"
BARE = "bare C"
PSUTIL = "psutil children + send_signal"
PACKAGE = "pidfd package over cgroup.procs"

_TERM = int(signal.SIGTERM)
_SIGNALS = {ASK: 0, IGNORED: _TERM, HANDLED: _TERM}
_GUARDS = ("pidfd_info", "pidfs_inode")
_TIMES = 3


def named(way: str, asked: str) -> str:
    """The figure of one way with one signal."""
    return f"{way}, {asked}"


def measure(scale: Scale) -> list[Figure]:
    """`members` processes, all children of the first, in one cgroup, and no others: psutil looks at every process of the machine.

    One such tree ignores SIGTERM: that is what signalling costs. Another handles it, and the next measure waits until all have;
    there, waking up a thousand processes, which nobody is spared, is in every figure. In a round three times, after one that is
    not timed; psutil once.
    """
    figures: list[Figure] = []
    for deaf, signals in ((True, (ASK, IGNORED)), (False, (HANDLED,))):
        with fresh_cgroup("tree") as cgroup:
            if cgroup is None:
                return [absent(named(way, asked), "us", NONE_HERE) for way in (OURS, BARE, PSUTIL) for asked in _SIGNALS]
            with tree(scale.members, cgroup, deaf=deaf) as members:
                contenders = [way for asked in signals for way in _ways(members, cgroup, asked)]
                figures += interleave(contenders, scale.fewer(4), scale.warm_up)
    if not pidfd_package():
        figures += [absent(named(PACKAGE, asked), "us", "not installed") for asked in _SIGNALS]
    if lacking(*_GUARDS):
        figures += [absent(named(BARE, asked), "us", lacking(*_GUARDS)) for asked in _SIGNALS]
    return figures


def _ways(members: Tree, cgroup: Cgroup, asked: str) -> list[Contender]:
    number = _SIGNALS[asked]
    subject = ProcessTree(cgroup=cgroup, leader=Leader(identity=ProcessIdentity.of(members.leader)))
    clear = members.await_answers if asked == HANDLED else _nothing
    ours = _timed(partial(_signal_all, subject, number, members.count), clear)
    theirs = _timed(partial(_psutil, members.leader, number), clear)
    package = _timed(partial(_package, f"{cgroup.path}/cgroup.procs", number), clear)
    ways = [
        Contender(name=named(OURS, asked), unit="us", take=lambda: each_us(ours, _TIMES)),
        Contender(name=named(PSUTIL, asked), unit="us", take=lambda: each_us(theirs, 1, untimed=0)),
    ]
    if not lacking(*_GUARDS):
        ways.append(Contender(name=named(BARE, asked), unit="us", take=lambda: _bare(cgroup, number, members.count, clear)))
    if pidfd_package():
        ways.append(Contender(name=named(PACKAGE, asked), unit="us", take=lambda: each_us(package, 1)))
    return ways


def _timed(call: Callable[[], object], clear: Callable[[], object]) -> Start:
    def start() -> Callable[[], object]:
        call()
        return clear

    return start


def _bare(cgroup: Cgroup, number: int, count: int, clear: Callable[[], object]) -> list[float]:
    once = function("tree", "bare_signal_tree", ctypes.c_int, ctypes.c_int, ctypes.c_int)
    taken = []
    for _ in range(_TIMES + 1):
        taken.append(once(cgroup.fileno(), number, count) / 1000)
        clear()
    return taken[1:]


def _nothing() -> None:
    return None


def _signal_all(subject: ProcessTree, number: int, count: int) -> None:
    report = signal_tree(subject, number)
    if report.signalled != count or not report.complete:
        raise RuntimeError(f"not all were reached: {report}")


def _psutil(leader: int, number: int) -> None:
    root = psutil.Process(leader)
    for process in (root, *root.children(recursive=True)):
        process.send_signal(number)


def _package(path: str, number: int) -> None:
    """Its pidfds hold a process; that it is still a member, nobody asks."""
    with open(path, encoding="ascii") as file:
        pids = [int(line) for line in file]
    for pid in pids:
        with pidfd_package().PidFd.open(pid) as held:
            held.signal(number)
