"""Identities of real processes: what they survive, and what ends them."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import IdentityStrength, ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.liveness import liveness_many
from spurproc.errors import AlreadyGone, InvalidArgument
from tests.payload import Payload
from tests.relatives import Blocked
from tests.rungs import RUNGS, without

ALIVE, GONE, UNKNOWN = Liveness.ALIVE, Liveness.GONE, Liveness.UNKNOWN
PayloadMaker = Callable[..., Payload]


@pytest.fixture(params=RUNGS, ids=lambda mask: f"without({mask})")
def rung(request: pytest.FixtureRequest) -> Iterator[Facilities]:
    """Each rung of the ladder in turn."""
    with without(request.param) as facilities:
        yield facilities


def test_life_of_a_process(rung: Facilities) -> None:
    """Running ALIVE, zombie GONE, reaped GONE; stored and read back all the while."""
    with Blocked() as child:
        identity = ProcessIdentity.from_text(ProcessIdentity.of(child.pid).to_text())
        assert identity.liveness() is ALIVE
        child.end()
        assert identity.liveness() is GONE
        assert ProcessIdentity.of(child.pid) == identity  # a zombie still has its identity
        child.reap()
        assert identity.liveness() is GONE
        with pytest.raises(AlreadyGone):
            ProcessIdentity.of(child.pid)
        with pytest.raises(AlreadyGone):
            identity.open()


def test_a_zombie_can_still_be_held(rung: Facilities) -> None:
    """What it ended with may yet be read."""
    with Blocked(7) as child:
        identity = ProcessIdentity.of(child.pid)
        child.end()
        with identity.open() as pidfd:
            assert pidfd.liveness() is GONE
            assert pidfd.exit_info().returncode == 7


def test_zombie_leader_with_live_threads_is_alive(rung: Facilities, payload: PayloadMaker) -> None:
    """Its state is Z, its other thread works on; it is GONE when that one ends."""
    process = payload("main_thread_exits")
    process.wait_ready()
    assert b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes()
    identity = ProcessIdentity.of(process.pid)
    with identity.open() as pidfd:
        assert (identity.liveness(), pidfd.liveness(), liveness_many([identity, pidfd])) == (ALIVE, ALIVE, [ALIVE, ALIVE])
        process.release()
        process.wait_exit()
        assert (identity.liveness(), pidfd.liveness(), liveness_many([identity, pidfd])) == (GONE, GONE, [GONE, GONE])


def test_thread_is_no_process(rung: Facilities) -> None:
    """A thread's number is refused by name, not taken for its process."""
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert thread.native_id is not None
    try:
        for refused in (ProcessIdentity.of, Pidfd.open):
            with pytest.raises(InvalidArgument, match="a thread, not a process"):
                refused(thread.native_id)
        # A number that has become a thread's is not the process that it was.
        once = replace(ProcessIdentity.of(os.getpid()), pid=thread.native_id, pidfs_inode=None)
        assert (once.liveness(), once.observe().evidence) == (GONE, "thread")
    finally:
        go.set()
        thread.join()


@pytest.mark.parametrize("name", [b") R 1 1\n(x", b"a b c", b"))))", b"\n\n\n", b"\xff\xfe\x80(", b"1 (2) 3 4"])
def test_name_of_a_process_is_no_part_of_it(rung: Facilities, name: bytes) -> None:
    """A process that takes a name to confuse readers is read right, running and as a zombie."""
    with Blocked(name=name) as child:
        text = Path(f"/proc/{child.pid}/stat").read_bytes()
        assert b"(" + name + b") " in text
        identity = ProcessIdentity.of(child.pid)
        assert identity.start_ticks == int(text.rpartition(b")")[2].split()[19])
        assert identity.liveness() is ALIVE
        child.end()
        assert identity.liveness() is GONE


def test_other_boot_is_gone() -> None:
    """Everything but the boot matches a live process."""
    identity = ProcessIdentity.of(os.getpid())
    other = replace(identity, boot_id="00000000-0000-4000-8000-000000000000")
    assert (other.liveness(), other.observe().evidence) == (GONE, "boot")
    with pytest.raises(AlreadyGone, match="another boot"):
        other.open()


def test_one_tick_off_is_a_stranger() -> None:
    """Same number, user and command line; without an inode the ticks decide."""
    identity = ProcessIdentity.of(os.getpid())
    with without("pidfs_inode"):
        for ticks in (identity.start_ticks - 1, identity.start_ticks + 1):
            stranger = replace(identity, start_ticks=ticks)
            assert (stranger.liveness(), stranger.observe().evidence) == (GONE, "ticks")
            with pytest.raises(AlreadyGone):
                stranger.open()
        assert identity.observe().evidence == "ticks"
        assert identity.strength is IdentityStrength.START_TICKS


@pytest.mark.needs_facility("pidfs_inode")
def test_other_inode_is_a_stranger_though_all_else_agrees() -> None:
    """The inode is the stronger key, by handle and by comparison."""
    identity = ProcessIdentity.of(os.getpid())
    assert identity.strength is IdentityStrength.PIDFS_INODE
    assert identity.pidfs_inode is not None
    with Blocked() as child:
        other = ProcessIdentity.of(child.pid)
        child.reap()
        stranger = replace(identity, pidfs_inode=other.pidfs_inode)
        for mask, evidence in (("", "handle"), ("pidfs_handle", "pidfs-inode")):
            with without(mask) as facilities:
                assert stranger.liveness() is GONE
                assert stranger.observe().evidence == (evidence if facilities.pidfs_handle or mask else "pidfs-inode")


def test_strength_says_what_was_used() -> None:
    """An identity taken with an inode and read where there is none is as weak as its ticks."""
    identity = ProcessIdentity.of(os.getpid())
    for mask in ("pidfs_inode", "pidfd_open"):
        with without(mask):
            assert ProcessIdentity.of(os.getpid()).pidfs_inode is None
            assert identity.liveness() is ALIVE
            assert ProcessIdentity.of(os.getpid()).strength is IdentityStrength.START_TICKS


def test_identity_of_a_held_process(rung: Facilities) -> None:
    with Blocked() as child, Pidfd.open(child.pid) as pidfd:
        assert ProcessIdentity.of_pidfd(pidfd) == ProcessIdentity.of(child.pid)
        child.reap()
        with pytest.raises(AlreadyGone):
            ProcessIdentity.of_pidfd(pidfd)


def test_identity_survives_exec(rung: Facilities, payload: PayloadMaker) -> None:
    """From a thread that is not the leader, which takes the leader's number over: still the same process."""
    process = payload("exec_self")
    assert process.wait_ready() == b"1"
    first = ProcessIdentity.of(process.pid)
    process.signal(signal.SIGUSR1)
    assert process.wait_ready() == b"2"
    assert ProcessIdentity.of(process.pid) == first
    assert first.liveness() is ALIVE


def test_many_at_once_in_order() -> None:
    """Identities and pidfds mixed, more than one batch of them, the dead between the living."""
    with Blocked() as live, Blocked() as dead, Pidfd.open(live.pid) as live_fd, Pidfd.open(dead.pid) as dead_fd:
        items: list[ProcessIdentity | Pidfd] = [
            ProcessIdentity.of(live.pid),
            live_fd,
            dead_fd,
            ProcessIdentity.of(dead.pid),
            *[live_fd] * 70,
            dead_fd,
        ] * 3
        dead.reap()
        assert liveness_many(items) == [ALIVE, ALIVE, GONE, GONE, *[ALIVE] * 70, GONE] * 3
        assert liveness_many(iter(items)) == [item.liveness() for item in items]
        assert liveness_many([]) == []


def test_closed_pidfd_is_never_gone() -> None:
    pidfd = Pidfd.open(os.getpid())
    pidfd.close()
    pidfd.close()
    assert liveness_many([pidfd]) == [UNKNOWN]
    for use in (pidfd.liveness, pidfd.fileno, pidfd.wait, pidfd.exit_info, lambda: pidfd.send_signal(18)):
        with pytest.raises(InvalidArgument, match="closed"):
            use()


def test_no_descriptor_to_spare_is_unknown() -> None:
    """EMFILE says nothing about the process."""
    identity = ProcessIdentity.of(os.getpid())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        seen, many = identity.liveness(), liveness_many([identity])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (seen, many) == (UNKNOWN, [UNKNOWN])
