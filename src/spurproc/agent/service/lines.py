"""Messages out of a peer's socket and into it, each bounded in size and time. Nothing is read ahead of what is answered."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

from spurproc.agent.service.bounds import Bounds, TooMuch

__all__ = ["LargeMessages", "PeerLines"]

_READ_BYTES = 1 << 16


class LargeMessages:
    """Turns for messages above the small size: one of each user at a time. So no user can make us hold more than one."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._turns: dict[int, tuple[asyncio.Lock, list[object]]] = {}

    async def take_turn(self, uid: int, held: AsyncExitStack) -> None:
        """Wait for that user's turn, which ends with `held`."""
        lock, users = self._turns.setdefault(uid, (asyncio.Lock(), []))
        users.append(lock)
        held.callback(self._leave, uid)
        await held.enter_async_context(lock)

    def _leave(self, uid: int) -> None:
        _, users = self._turns[uid]
        users.pop()
        if not users:
            del self._turns[uid]


class PeerLines:
    """The lines of one peer. Borrows the socket, which does not block."""

    def __init__(self, end: socket.socket, uid: int, bounds: Bounds, large: LargeMessages) -> None:
        self._end = end
        self._uid = uid
        self._bounds = bounds
        self._large = large
        self._bytes = bytearray()
        self._turn: AsyncExitStack | None = None

    async def next(self, within_s: float) -> bytes | None:
        """The next line, without its newline; None when the peer is gone. Its first byte has to come `within_s`.

        A large one keeps its user's turn until `answered`. Raises TooMuch for one that is too large or too slow.
        """
        if not self._bytes and not await self._begins(within_s):
            return None
        try:
            async with asyncio.timeout(self._bounds.message_within_s):
                return await self._whole()
        except TimeoutError:
            raise TooMuch(f"a message has to be there within {self._bounds.message_within_s:g} s of its first byte") from None

    async def _begins(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._more()
        except TimeoutError:
            raise TooMuch(f"no request for {within_s:g} s") from None

    async def _whole(self) -> bytes | None:
        searched = 0
        while (end := self._bytes.find(b"\n", searched)) < 0:
            searched = len(self._bytes)
            if searched > self._large.limit_bytes:
                self._bytes = bytearray()
                raise TooMuch(f"a message has more than {self._large.limit_bytes} bytes")
            if searched > self._bounds.small_bytes and self._turn is None:
                await self._take_turn()
            if not await self._more():
                return None
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        return line

    async def _take_turn(self) -> None:
        self._turn = AsyncExitStack()
        await self._large.take_turn(self._uid, self._turn)

    async def speaks(self) -> bool:
        """Return once the peer says something: True; or is gone: False. Takes nothing of it: it may be cancelled any time."""
        if self._bytes:
            return True
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._end.fileno(), readable.set)
        try:
            await readable.wait()
            return bool(self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False
        finally:
            loop.remove_reader(self._end.fileno())

    async def answered(self) -> None:
        """What was read last is not needed any more."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.aclose()

    async def _more(self) -> bool:
        try:
            content = await asyncio.get_running_loop().sock_recv(self._end, _READ_BYTES)
        except OSError:
            return False
        self._bytes += content
        return bool(content)
