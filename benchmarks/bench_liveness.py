"""What does asking "does it live?" cost, for one process that is held, for one that is stored, and for a thousand at once?"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Callable
from functools import partial

import psutil

from benchmarks.bare import function
from benchmarks.cgroup_home import NONE_HERE
from benchmarks.measure import Contender, Figure, Samples, absent, interleave, loop_ns
from benchmarks.members import Tree, many, tree
from benchmarks.parts import part
from benchmarks.peers import pidfd_package
from benchmarks.scale import Scale
from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.spawn import Spawned
from spurproc.core.tree.liveness import liveness_many

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
NUMBER = "os.kill(pid, 0)"

CORE = part(HELD, "the C core's own call, from Python")
EMPTY = part(HELD, "a Python method that does nothing")

_DEAR = 20
"""How many times fewer turns for what takes longer."""


def measure(scale: Scale) -> list[Figure]:
    """One question about one process; then one call about `members` processes, or as many cgroups with one of them in each."""
    with tree(1) as target:
        singles = interleave(_singles(target, scale.turns), scale.fewer(2), scale.warm_up)
    with many(scale.members) as (spawned, cgroups):
        contenders = [*_many(spawned, scale), *_many_cgroups(cgroups, scale)]
        return singles + interleave(contenders, scale.fewer(4), scale.warm_up) + _missing(cgroups)


def _missing(cgroups: list[Cgroup]) -> list[Figure]:
    missing = [] if cgroups else [absent(name, "ns", NONE_HERE) for name in (MANY_CGROUPS, BARE_CGROUPS)]
    return missing if pidfd_package() else [*missing, absent(PACKAGE, "ns", "not installed")]


def _singles(target: Tree, turns: int) -> list[Contender]:
    pidfd, identity = Pidfd.open(target.leader), ProcessIdentity.of(target.leader)
    ways: list[tuple[str, Callable[[], Samples]]] = [
        (HELD, partial(loop_ns, pidfd.liveness, turns)),
        (BARE_HELD, lambda: [function("liveness", "bare_pidfd", ctypes.c_int, ctypes.c_long)(pidfd.fileno(), turns)]),
        (STORED, partial(loop_ns, identity.liveness, turns)),
        (BARE_STORED, partial(_bare_identities, [identity], turns)),
        (PSUTIL, partial(loop_ns, psutil.Process(target.leader).is_running, max(1, turns // _DEAR))),
        (CORE, partial(loop_ns, partial(lib.spur_pidfd_poll, pidfd.fileno()), turns)),
        (EMPTY, partial(loop_ns, _Empty().ask, turns)),
        (NUMBER, partial(loop_ns, partial(os.kill, target.leader, 0), turns)),  # noqa: TID251 - 0 only asks, and it is our child
        ("subprocess.Popen.poll", partial(loop_ns, target.popen.poll, turns)),
    ]
    package = pidfd_package()
    if package:
        poll = select.poll()
        poll.register(package.PidFd.open(target.leader).detach(), select.POLLIN)
        ways.append((PACKAGE, partial(loop_ns, partial(poll.poll, 0), turns)))
    return [Contender(name=name, unit="ns", take=take) for name, take in ways]


class _Empty:
    def ask(self) -> None:
        return None


def _many(spawned: list[Spawned], scale: Scale) -> list[Contender]:
    identities, pidfds = [one.identity for one in spawned], [one.pidfd for one in spawned]
    peers = [psutil.Process(one.pid) for one in spawned]
    count, turns = len(spawned), max(1, scale.turns // len(spawned))
    ways: list[tuple[str, Callable[[], Samples]]] = [
        (MANY_IDENTITIES, partial(loop_ns, partial(liveness_many, identities), turns, count)),
        (BARE_IDENTITIES, partial(_bare_identities, identities, turns)),
        (MANY_PIDFDS, partial(loop_ns, partial(liveness_many, pidfds), turns, count)),
        ("psutil is_running of each", partial(loop_ns, lambda: [peer.is_running() for peer in peers], 1, count)),
    ]
    return [Contender(name=name, unit="ns", take=take) for name, take in ways]


def _many_cgroups(cgroups: list[Cgroup], scale: Scale) -> list[Contender]:
    if not cgroups:
        return []
    count, turns = len(cgroups), max(1, scale.turns // len(cgroups))
    bare = function("liveness", "bare_cgroups", ctypes.POINTER(ctypes.c_int), ctypes.c_long, ctypes.c_long)
    events = (ctypes.c_int * count)(*[cgroup.events_fd for cgroup in cgroups])
    return [
        Contender(name=MANY_CGROUPS, unit="ns", take=partial(loop_ns, partial(liveness_many, cgroups), turns, count)),
        Contender(name=BARE_CGROUPS, unit="ns", take=lambda: [bare(events, count, turns)]),
    ]


def _bare_identities(identities: list[ProcessIdentity], turns: int) -> list[float]:
    bare = function("liveness", "bare_identities", ctypes.POINTER(ctypes.c_uint64), ctypes.c_long, ctypes.c_long)
    inodes = (ctypes.c_uint64 * len(identities))(*[identity.pidfs_inode or 0 for identity in identities])
    return [bare(inodes, len(identities), turns)]
