"""Peers of the agent's socket that mean ill, or nothing at all: bounded, and undisturbed who speaks as one should."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.cli.failure import AgentRefused
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.replies import Changed, NodeStatus, Refusal, Refused, Reserved
from spurproc.agent.service.requests import Alloc, Hello, Jobs, Status, Submit, Wait
from spurproc.proto.codec import encode
from tests.agent_service import AgentDesk, RawPeer, spec_of
from tests.pace import at_this_pace
from tests.relatives import NOBODY, in_fork

LARGE_LIMIT_BYTES = 16 << 20
"""A little more than the largest message: a script of 4 MiB in base64, and 8 MiB."""
SERVED_WITHIN_S = 3.0
GROWTH_KIB = 3 * (LARGE_LIMIT_BYTES >> 10)
"""What one such message may cost while it is there, buffers of the allocator included."""


@pytest.fixture
def make(commons: Path) -> Iterator[Callable[..., AgentDesk]]:
    """A service with these bounds."""
    with ExitStack() as held:
        yield lambda **bounds: held.enter_context(AgentDesk(commons / "state", **bounds))


def open_files(desk: AgentDesk) -> int:
    return len(os.listdir(f"/proc/{desk.process.pid}/fd"))


def peak_kib(desk: AgentDesk) -> int:
    lines = Path(f"/proc/{desk.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def assert_served(desk: AgentDesk) -> None:
    """Whoever asks now is answered, soon."""
    begin = time.monotonic()
    with desk.client() as client:
        client.status()
        list(client.jobs())
    assert time.monotonic() - begin < at_this_pace(SERVED_WITHIN_S)


@contextmanager
def undisturbed(desk: AgentDesk) -> Iterator[None]:
    """It holds nothing of them afterwards, and has not grown by more than a bound; it was there all the time."""
    assert_served(desk)
    before, peak = open_files(desk), peak_kib(desk)
    yield
    assert_served(desk)
    deadline = time.monotonic() + at_this_pace(SERVED_WITHIN_S)
    while open_files(desk) > before:
        assert time.monotonic() < deadline, "descriptors of peers that are gone are left"
        assert_served(desk)
    assert peak_kib(desk) - peak < GROWTH_KIB


def refusal_of(peer: RawPeer) -> Refusal:
    """The one refusal that it hears, before it is hung up on."""
    reply = peer.hear()
    assert isinstance(reply, Refused), reply
    assert peer.is_hung_up()
    return reply.kind


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Refusal.MALFORMED),
        (b"\xff\x00\x1b[31m\n", Refusal.MALFORMED),
        (b"[" * 60_000 + b"\n", Refusal.MALFORMED),
        (b"\n" * 1000, Refusal.MALFORMED),
        (b'{"request":"status"}\n', Refusal.MALFORMED),
        (b'{"request":"hello","v":99}\n', Refusal.VERSION),
        (b'{"request":"hello","v":0}\n', Refusal.VERSION),
    ],
    ids=["http", "binary", "deep", "empty", "no-hello", "newer", "version-0"],
)
def test_garbage_is_refused(make: Callable[..., AgentDesk], content: bytes, kind: Refusal) -> None:
    desk = make()
    with undisturbed(desk):
        with RawPeer(desk.path) as peer:
            peer.say(content)
            assert refusal_of(peer) is kind
        if kind is Refusal.MALFORMED and b"status" not in content:
            with RawPeer(desk.path).greet() as peer:
                peer.say(content)
                assert refusal_of(peer) is kind


def pour(peer: RawPeer, most: int) -> int:
    """As much as it takes, without a newline; how much that was."""
    poured = 0
    piece = b"x" * (1 << 16)
    while poured < most:
        try:
            poured += peer.socket.send(piece)
        except (BrokenPipeError, ConnectionResetError):
            break
    return poured


def test_a_gigabyte_without_a_newline(make: Callable[..., AgentDesk]) -> None:
    desk = make()
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        assert pour(peer, 1 << 30) < LARGE_LIMIT_BYTES
        assert refusal_of(peer) is Refusal.TOO_MANY


def test_millions_of_empty_strings(make: Callable[..., AgentDesk]) -> None:
    """Each is little to say, and much to decode: nobody waits for that."""
    desk = make()
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        peer.say(b'{"request":"submit","spec":{"argv":[""' + b',""' * 3_000_000 + b"]}}\n")
        assert refusal_of(peer) is Refusal.TOO_MANY


def test_large_messages_have_to_wait_for_each_other(make: Callable[..., AgentDesk]) -> None:
    """A dozen at once cost what one costs, and small ones of the same user go past them."""
    desk = make()
    with undisturbed(desk), ExitStack() as held:
        peers = [held.enter_context(RawPeer(desk.path).greet()) for _ in range(12)]
        for peer in peers:
            peer.socket.setblocking(False)
        poured = [0] * len(peers)
        quiet = 0
        while quiet < 3:
            moved = pour_each(peers, poured, most=LARGE_LIMIT_BYTES * 3 // 4)
            quiet = 0 if moved else quiet + 1
            assert_served(desk)
        assert sum(amount > (2 << 20) for amount in poured) == 1, poured


def pour_each(peers: list[RawPeer], poured: list[int], *, most: int) -> bool:
    """What each takes now; whether one took anything."""
    moved = False
    for index, peer in enumerate(peers):
        try:
            while poured[index] < most:
                poured[index] += peer.socket.send(b"x" * (1 << 16))
                moved = True
        except BlockingIOError:
            continue
    return moved


@pytest.mark.needs_root
def test_large_messages_of_one_user_hold_up_no_other(make: Callable[..., AgentDesk]) -> None:
    desk = make()
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        peer.socket.setblocking(False)
        poured = [0]
        while poured[0] < 1 << 20:
            pour_each([peer], poured, most=1 << 20)

        def submit() -> int:
            with desk.client() as client:
                return client.submit(spec_of(client, script=b"#!/bin/sh\n" + b"#" * (1 << 20))).job_id

        assert in_fork(submit, uid=NOBODY) == 1


def test_a_byte_now_and_then_does_not_keep_a_connection(make: Callable[..., AgentDesk]) -> None:
    desk = make(message_within_s=0.5)
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        begin = time.monotonic()
        while not select.select([peer.socket], [], [], 0.05)[0]:
            peer.say(b"x")
            assert time.monotonic() - begin < at_this_pace(10.0)
        assert refusal_of(peer) is Refusal.TOO_MANY


@pytest.mark.parametrize(("bounds", "greets"), [({"hello_within_s": 0.2}, False), ({"idle_s": 0.2}, True)])
def test_silence_ends_a_connection(make: Callable[..., AgentDesk], bounds: dict[str, float], greets: bool) -> None:
    desk = make(**bounds)
    with undisturbed(desk), RawPeer(desk.path) as peer:
        if greets:
            peer.greet()
        assert refusal_of(peer) is Refusal.TOO_MANY


def test_who_waits_is_not_silent(make: Callable[..., AgentDesk]) -> None:
    desk = make(idle_s=0.2, message_within_s=0.2)
    with desk.client() as client, desk.client() as other:
        client.submit(spec_of(client))
        standings = other.wait(1)
        next(standings)
        with RawPeer(desk.path).greet() as silent:
            assert refusal_of(silent) is Refusal.TOO_MANY  # longer than that has gone by
        desk.run()
        assert [type(standing).__name__ for standing in standings][-1] == "Ended"


def test_connect_and_vanish(make: Callable[..., AgentDesk]) -> None:
    desk = make()
    submit = b""
    with desk.client() as client:
        submit = encode(Submit(spec=spec_of(client)))
    with undisturbed(desk):
        for index in range(300):
            with RawPeer(desk.path) as peer:
                if index % 3:
                    peer.say(Hello())
                if index % 3 == 2:
                    peer.say(submit[: index % len(submit)])
        for _ in range(30):
            with RawPeer(desk.path).greet() as peer:
                peer.say(submit)  # whole, but for its newline
    with desk.client() as client:
        assert list(client.jobs()) == []


def test_connections_of_a_user_are_counted(make: Callable[..., AgentDesk]) -> None:
    desk = make(connections_of_user=4)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(RawPeer(desk.path).greet())
        with pytest.raises(AgentRefused, match=r"has 4 connections already"):
            desk.client()
        if os.geteuid() == 0:

            def ask() -> Any:
                with desk.client() as client:
                    return client.status().node

            assert in_fork(ask, uid=NOBODY) == "testnode"
    with undisturbed(desk):
        pass


def test_who_waits_leaves_room_for_who_asks(make: Callable[..., AgentDesk]) -> None:
    """As many of one user as may wait; the next is refused, and an answer at once is still to be had."""
    desk = make(connections_of_user=4, lasting_of_user=2)
    with desk.client() as client:
        client.submit(spec_of(client))

    def waits(peer: RawPeer) -> object:
        peer.say(Wait(job_id=1))
        return peer.hear()

    for _ in range(2):
        with undisturbed(desk), ExitStack() as held:
            for _ in range(2):
                assert isinstance(waits(held.enter_context(RawPeer(desk.path).greet())), Changed)
            with RawPeer(desk.path).greet() as peer:
                assert isinstance(told := waits(peer), Refused)
                assert told.kind is Refusal.TOO_MANY
            assert_served(desk)


@pytest.mark.needs_root
def test_root_gets_in_however_many_others_come(make: Callable[..., AgentDesk]) -> None:
    desk = make(connections=3)

    def crowd() -> str:
        with ExitStack() as held:
            for _ in range(3):
                held.enter_context(RawPeer(desk.path).greet())
            with pytest.raises(AgentRefused, match="too many connections of all users"):
                desk.client()
            return in_root()

    def in_root() -> str:
        os.write(ready_write, b"x")
        os.read(done_read, 1)
        return "ok"

    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if in_fork(crowd, uid=NOBODY) == "ok" else 1)
        except BaseException:  # noqa: BLE001 - nothing may leave this fork of the runner
            os._exit(2)
    os.close(ready_write)
    assert os.read(ready_read, 1) == b"x"
    try:
        assert_served(desk)
    finally:
        os.write(done_write, b"x")
        status = os.waitpid(pid, 0)[1]
        for fd in (ready_read, done_read, done_write):
            os.close(fd)
    assert status == 0


def test_who_takes_no_answer_is_hung_up_on(make: Callable[..., AgentDesk]) -> None:
    desk = make(taken_within_s=0.5)
    with desk.client() as client:
        for _ in range(50):
            client.submit(spec_of(client, name="n" * 100))
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        peer.socket.setblocking(False)
        asked = encode(Jobs(limit=200)) + b"\n"
        poll = select.poll()
        poll.register(peer.socket, select.POLLOUT)
        begin = time.monotonic()
        try:
            while time.monotonic() - begin < at_this_pace(20.0):
                if poll.poll(50):
                    peer.socket.send(asked * 100)
            pytest.fail("it was never hung up on")
        except (BrokenPipeError, ConnectionResetError):
            pass


def test_a_flood_of_requests_leaves_others_their_turn(make: Callable[..., AgentDesk]) -> None:
    desk = make()
    with undisturbed(desk), RawPeer(desk.path).greet() as peer:
        peer.socket.setblocking(False)
        asked = (encode(Status()) + b"\n") * 200
        for _ in range(20):
            try:
                peer.socket.send(asked)
                peer.socket.recv(1 << 20)
            except BlockingIOError:
                pass
            assert_served(desk)


@pytest.mark.parametrize("content", [encode(Status()) + b"\n", b"x\n"], ids=["request", "garbage"])
def test_who_waits_or_reserves_has_nothing_to_say(make: Callable[..., AgentDesk], content: bytes) -> None:
    desk = make()
    with desk.client() as client:
        client.submit(spec_of(client))
    with undisturbed(desk):
        with RawPeer(desk.path).greet() as peer:
            peer.say(Wait(job_id=1))
            assert isinstance(peer.hear(), Changed)
            peer.say(content)
            assert refusal_of(peer) is Refusal.MALFORMED
        with RawPeer(desk.path).greet() as peer:
            peer.say(Alloc(resources=ResourceRequest()))
            assert isinstance(peer.hear(), Reserved)
            peer.say(content)
            assert refusal_of(peer) is Refusal.MALFORMED
        assert desk.line() == "released"


def test_requests_that_come_at_once_are_answered_in_turn(make: Callable[..., AgentDesk]) -> None:
    desk = make()
    with RawPeer(desk.path) as peer:
        peer.say(encode(Hello()) + b"\n" + (encode(Status()) + b"\n") * 50)
        assert type(peer.hear()).__name__ == "Welcome"
        assert all(isinstance(peer.hear(), NodeStatus) for _ in range(50))


def test_a_peer_that_shuts_its_side_is_answered_still(make: Callable[..., AgentDesk]) -> None:
    """As `socat` does at the end of its input."""
    desk = make()
    with RawPeer(desk.path) as peer:
        peer.say(encode(Hello()) + b"\n" + encode(Status()) + b"\n")
        peer.socket.shutdown(socket.SHUT_WR)
        peer.hear()
        assert isinstance(peer.hear(), NodeStatus)
        assert peer.is_hung_up()
