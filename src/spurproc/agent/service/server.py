"""The service: lets peers in, within bounds, and gives each a conversation of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from spurproc.agent.service.answers import Answers
from spurproc.agent.service.bounds import Bounds, TooMuch, large_message_bytes
from spurproc.agent.service.conversation import Conversation, Office
from spurproc.agent.service.desk import Desk
from spurproc.agent.service.lines import LargeMessages
from spurproc.agent.service.peers import Peer, UserNames, peer_of
from spurproc.agent.service.permission import Permission
from spurproc.agent.service.replies import Refusal

__all__ = ["Service"]

_STARVED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_S = 1.0
_FAREWELL_S = 1.0


class Service:
    """Used from one event loop. Borrows the listener: a socket that listens and does not block."""

    def __init__(self, desk: Desk, *, on_fault: Callable[[BaseException], None], bounds: Bounds | None = None) -> None:
        permission = Permission(agent_uid=os.geteuid(), ceilings=_own_limits())
        self._bounds = bounds or Bounds()
        self._office = Office(
            desk=desk,
            answers=Answers(desk, permission),
            permission=permission,
            names=UserNames(),
            large=LargeMessages(large_message_bytes(desk.script_limit_bytes)),
            bounds=self._bounds,
            on_fault=on_fault,
        )
        self._accepting: asyncio.Task[None] | None = None
        self._conversations: dict[asyncio.Task[None], Conversation] = {}
        self._of_user: Counter[int] = Counter()

    def start(self, listener: socket.socket) -> None:
        """Serve from now on."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))

    async def close(self) -> None:
        """Serve no more. What is being carried out is answered first, within a bound. May be called twice."""
        accepting, self._accepting = self._accepting, None
        if accepting is not None:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        for task, conversation in self._conversations.items():
            if conversation.idle:
                task.cancel()
        if self._conversations:
            await asyncio.wait(self._conversations, timeout=self._bounds.answered_within_s)
        left = list(self._conversations)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._conversations)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                end, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _STARVED:  # it stays in the backlog
                    await asyncio.sleep(_AGAIN_S)
                continue
            self._let_in(end)
            await asyncio.sleep(0)  # accepting alone never waits while somebody keeps connecting

    def _let_in(self, end: socket.socket) -> None:
        try:
            peer = peer_of(end)
        except OSError:
            end.close()
            return
        conversation = Conversation(end, peer, self._office)
        task = asyncio.get_running_loop().create_task(self._converse(end, peer, conversation))
        self._conversations[task] = conversation
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._conversations[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._office.on_fault(error)

    async def _converse(self, end: socket.socket, peer: Peer, conversation: Conversation) -> None:
        with end:
            full = self._why_full(peer.uid)
            if full:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_FAREWELL_S):
                        await conversation.refuse(Refusal.TOO_MANY, TooMuch(full))
                return
            self._of_user[peer.uid] += 1
            try:
                await conversation.run(lambda: self._accepting is not None)
            finally:
                self._of_user[peer.uid] -= 1
                if not self._of_user[peer.uid]:
                    del self._of_user[peer.uid]

    def _why_full(self, uid: int) -> str:
        """Why there is no room; empty: there is. Root's are counted for themselves: however many others come, it gets in."""
        if self._of_user[uid] >= self._bounds.connections_of_user:
            return f"user {uid} has {self._bounds.connections_of_user} connections already, and no more are taken"
        others = self._of_user.total() - self._of_user[0]
        return "too many connections of all users" if uid != 0 and others >= self._bounds.connections else ""


def _own_limits() -> dict[int, int]:
    limits = {}
    for number in range(32):
        with suppress(ValueError):
            limits[number] = resource.getrlimit(number)[1]
    return limits
