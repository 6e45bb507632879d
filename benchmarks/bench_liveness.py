"""What does asking "does it live?" cost, for one process that is held, for one that is stored, and for a thousand at once?"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Callable, Sequence
from functools import partial

import psutil

from benchmarks.bare import function
from benchmarks.cgroup_home import NONE_HERE
from benchmarks.measure import Contender, Figure, absent, calls_ns, interleave, loops_ns
from benchmarks.members import Tree, many, tree
from benchmarks.parts import measure_parts, part
from benchmarks.peers import lacking, pidfd_package
from benchmarks.scale import Scale
from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.spawn import Spawned
from spurproc.core.tree.liveness import Subject, liveness_many

HELD = "Pidfd.liveness"
STORED = "ProcessIdentity.liveness"
MANY_IDENTITIES = "liveness_many, identities"
MANY_PIDFDS = "liveness_many, Pidfds"
MANY_CGROUPS = "liveness_many, cgroups"
BARE_HELD = "bare C, kept pidfd"
BARE_STORED = "bare C, stored inode"
BARE_IDENTITIES = "bare C, stored inodes"
BARE_CGROUPS = "bare C, cgroup.events"
PSUTIL = "psutil is_running"
PACKAGE = "pidfd package and select.poll"

CORE = part(HELD, "the C core's own call, from Python")
EMPTY = part(HELD, "a Python method that does nothing")

_BY_INODE = ("pidfs_inode", "pidfs_handle")
_DEAR = 20
"""How many times fewer turns for what takes longer."""


def measure(scale: Scale) -> list[Figure]:
    """One question about one process; then one call about `members` processes, or as many cgroups with one of them in each."""
    rounds = scale.fewer(2)
    with tree(1) as target:
        singles = interleave(_singles(target, scale), rounds, scale.warm_up)
    with many(scale.members) as (spawned, cgroups):
        contenders = [*_many(spawned, scale), *_many_cgroups(cgroups, scale)]
        many_at_once = interleave(contenders, rounds, scale.warm_up) + _parts(spawned, cgroups, scale.rounds)
    return singles + many_at_once + _missing(cgroups)


def _parts(spawned: list[Spawned], cgroups: list[Cgroup], times: int) -> list[Figure]:
    """Of one call about all of them."""
    figures = []
    for call, items, core in (
        (MANY_IDENTITIES, [one.identity for one in spawned], "spur_liveness_many"),
        (MANY_CGROUPS, cgroups, "spur_liveness_cgroups"),
    ):
        places = {"all of it": f"{__name__}:liveness_many", "the C core's call": f"spurproc.core.tree.liveness:lib.{core}"}
        figures += measure_parts(call, partial(_ask_all, items), places, times) if items else []
    return figures


def _ask_all(items: Sequence[Subject]) -> Callable[[], object]:
    return liveness_many(items).clear


def _missing(cgroups: list[Cgroup]) -> list[Figure]:
    reasons = {name: NONE_HERE for name in (MANY_CGROUPS, BARE_CGROUPS) if not cgroups}
    reasons |= {name: lacking(*_BY_INODE) for name in (BARE_STORED, BARE_IDENTITIES) if lacking(*_BY_INODE)}
    if not pidfd_package():
        reasons[PACKAGE] = "not installed"
    return [absent(name, "ns", why) for name, why in reasons.items()]


def _loops(name: str, ask: Callable[[], object], turns: int, loops: int, each: int = 1) -> Contender:
    return Contender(name=name, unit="ns", take=partial(loops_ns, ask, max(1, turns), loops, each))


def _calls(name: str, take_ns: Callable[[], float], loops: int) -> Contender:
    return Contender(name=name, unit="ns", take=partial(calls_ns, take_ns, loops))


def _singles(target: Tree, scale: Scale) -> list[Contender]:
    turns, loops = scale.turns, scale.loops
    pidfd, identity = Pidfd.open(target.leader), ProcessIdentity.of(target.leader)
    bare = function("liveness", "bare_pidfd", ctypes.c_int, ctypes.c_long)
    number = partial(os.kill, target.leader, 0)  # noqa: TID251 - 0 only asks, and it is our child
    ways = [
        _loops(HELD, pidfd.liveness, turns, loops),
        _calls(BARE_HELD, lambda: bare(pidfd.fileno(), turns), loops),
        _loops(STORED, identity.liveness, turns, loops),
        *_bare_identities(BARE_STORED, [identity], turns, loops),
        _loops(PSUTIL, psutil.Process(target.leader).is_running, turns // _DEAR, loops),
        _loops(CORE, partial(lib.spur_pidfd_poll, pidfd.fileno()), turns, loops),
        _loops(EMPTY, _Empty().ask, turns, loops),
        _loops("os.kill(pid, 0)", number, turns, loops),
        _loops("subprocess.Popen.poll", target.popen.poll, turns, loops),
    ]
    package = pidfd_package()
    if package:
        poll = select.poll()
        poll.register(package.PidFd.open(target.leader).detach(), select.POLLIN)
        ways.append(_loops(PACKAGE, partial(poll.poll, 0), turns, loops))
    return ways


class _Empty:
    def ask(self) -> None:
        return None


def _many(spawned: list[Spawned], scale: Scale) -> list[Contender]:
    identities, pidfds = [one.identity for one in spawned], [one.pidfd for one in spawned]
    peers = [psutil.Process(one.pid) for one in spawned]
    count, loops = len(spawned), scale.loops
    return [
        _loops(MANY_IDENTITIES, partial(liveness_many, identities), 1, loops, count),
        *_bare_identities(BARE_IDENTITIES, identities, 1, loops),
        _loops(MANY_PIDFDS, partial(liveness_many, pidfds), 1, loops, count),
        _loops("psutil is_running of each", lambda: [peer.is_running() for peer in peers], 1, 1, count),
    ]


def _many_cgroups(cgroups: list[Cgroup], scale: Scale) -> list[Contender]:
    if not cgroups:
        return []
    count, loops = len(cgroups), scale.loops
    bare = function("liveness", "bare_cgroups", ctypes.POINTER(ctypes.c_int), ctypes.c_long, ctypes.c_long)
    events = (ctypes.c_int * count)(*[cgroup.events_fd for cgroup in cgroups])
    return [
        _loops(MANY_CGROUPS, partial(liveness_many, cgroups), 1, loops, count),
        _calls(BARE_CGROUPS, lambda: bare(events, count, 1), loops),
    ]


def _bare_identities(name: str, identities: list[ProcessIdentity], turns: int, loops: int) -> list[Contender]:
    if lacking(*_BY_INODE):
        return []
    bare = function("liveness", "bare_identities", ctypes.POINTER(ctypes.c_uint64), ctypes.c_long, ctypes.c_long)
    inodes = (ctypes.c_uint64 * len(identities))(*[identity.pidfs_inode or 0 for identity in identities])
    return [_calls(name, lambda: bare(inodes, len(identities), turns), loops)]
