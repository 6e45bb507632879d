"""A conversation without an agent behind it: whose fault an answer says that it is."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

from spurproc.agent.service.bounds import Bounds
from spurproc.agent.service.conversation import Conversation, Office
from spurproc.agent.service.lines import LargeMessages
from spurproc.agent.service.peers import Peer
from spurproc.agent.service.replies import Refusal, Refused, Welcome
from spurproc.agent.service.requests import Hello, Status
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import RecordInvalid
from spurproc.proto.codec import PROTOCOL_VERSION, decode, encode

PEER = Peer(pid=1, uid=7, gid=7, groups=())


async def _damaged(*_: object) -> Any:
    raise RecordInvalid("the queue", "it is malformed")


async def _named(_: int) -> str:
    return "ann"


def _office() -> Office:
    desk = SimpleNamespace(node="n", script_limit_bytes=1, output_pattern="o", kill_plan=KillPlan.default())
    return Office(
        desk=cast("Any", desk),
        answers=cast("Any", SimpleNamespace(answer=_damaged)),
        permission=cast("Any", SimpleNamespace(is_root=lambda _: False)),
        names=cast("Any", SimpleNamespace(name_of=_named)),
        large=LargeMessages(1 << 20),
        bounds=Bounds(),
        on_fault=lambda _: None,
    )


def test_a_record_of_ours_that_cannot_be_read_is_no_fault_of_the_peer() -> None:
    """It is told so, and may ask for something else; what it said itself and is no request ends the conversation."""

    async def scene(end: socket.socket, other: socket.socket) -> list[object]:
        end.setblocking(False)
        said = [encode(Hello(v=PROTOCOL_VERSION)), encode(Status()), encode(Status()), b"{"]
        other.sendall(b"".join(line + b"\n" for line in said))
        await Conversation(end, PEER, _office()).run(lambda: True)
        lines = other.recv(1 << 16).splitlines()
        return [decode(lines[0], Welcome, "the first"), *(decode(line, Refused, "a reply").kind for line in lines[1:])]

    end, other = socket.socketpair()
    with end, other:
        welcome, *kinds = asyncio.run(scene(end, other))
    assert isinstance(welcome, Welcome)
    assert kinds == [Refusal.FAILED, Refusal.FAILED, Refusal.MALFORMED]
