"""One connection, from hello to its end: a request, its answer, the next one. What goes wrong here goes wrong for nobody else."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from spurproc.agent.controller.local.ending import OtherAttempt
from spurproc.agent.service.answers import Answers
from spurproc.agent.service.bounds import Bounds, TooMuch, check_strings
from spurproc.agent.service.caller import Caller
from spurproc.agent.service.desk import Desk
from spurproc.agent.service.lines import LargeMessages, PeerLines
from spurproc.agent.service.peers import Peer, UserNames
from spurproc.agent.service.permission import Permission
from spurproc.agent.service.replies import Done, Ended, Refusal, Refused, Reply, Reserved, Welcome
from spurproc.agent.service.requests import Alloc, Hello, Release, Request, Wait
from spurproc.errors import (
    AlreadyGone,
    Busy,
    InvalidArgument,
    NotPermitted,
    RecordInvalid,
    RecordTooNew,
    SpurprocError,
    Unsupported,
)
from spurproc.proto.codec import OLDEST_VERSION, PROTOCOL_VERSION, decode, encode
from spurproc.version import VERSION

__all__ = ["Conversation", "Office"]

_RESERVED_LAST_S = 366 * 86400.0
_NO_REQUEST = "a request"
_KINDS: tuple[tuple[type[SpurprocError], Refusal], ...] = (
    (OtherAttempt, Refusal.OTHER_ATTEMPT),
    (InvalidArgument, Refusal.INVALID),
    (Unsupported, Refusal.UNSUPPORTED),
    (NotPermitted, Refusal.NOT_PERMITTED),
    (AlreadyGone, Refusal.NOT_FOUND),
    (Busy, Refusal.BUSY),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """What all conversations share."""

    desk: Desk
    answers: Answers
    permission: Permission
    names: UserNames
    large: LargeMessages
    bounds: Bounds
    on_fault: Callable[[BaseException], None]
    """Told of what should not have happened; the peer is told too, and others notice nothing."""
    lasting: Counter[int] = field(default_factory=Counter)
    """How many connections of each user wait for a job, or have a reservation."""


class _Over(Exception):
    """Nothing more is to be said, or can be."""


class Conversation:
    """Borrows its socket."""

    def __init__(self, end: socket.socket, peer: Peer, office: Office) -> None:
        self._end = end
        self._peer = peer
        self._office = office
        self._bounds = office.bounds
        self._lines = PeerLines(end, peer.uid, office.bounds, office.large)
        self.idle = True
        """Whether no request is being carried out: to end now loses no answer."""

    async def run(self, goes_on: Callable[[], bool]) -> None:
        """Until either side has enough; `goes_on` is asked before each request."""
        try:
            caller = await self._hello()
            while goes_on():
                await self._turn(caller, await self._next(self._bounds.idle_s))
        except TooMuch as error:
            await self._farewell(Refusal.TOO_MANY, error)
        except RecordTooNew as error:
            await self._farewell(Refusal.VERSION, error)
        except RecordInvalid as error:
            await self._farewell(Refusal.MALFORMED, error)
        except _Over:
            pass
        finally:
            await self._lines.answered()

    async def refuse(self, kind: Refusal, error: Exception) -> None:
        """Say why there will be no conversation."""
        await self._farewell(kind, error)

    async def _hello(self) -> Caller:
        hello = await self._next(self._bounds.hello_within_s)
        if not isinstance(hello, Hello):
            raise RecordInvalid(_NO_REQUEST, "the first one has to be hello")
        if not OLDEST_VERSION <= hello.v <= PROTOCOL_VERSION + 1:
            raise RecordTooNew(_NO_REQUEST, hello.v)
        caller = Caller(peer=self._peer, user=await self._office.names.name_of(self._peer.uid))
        await self._send(self._welcome(caller))
        return caller

    def _welcome(self, caller: Caller) -> Welcome:
        return Welcome(
            v=PROTOCOL_VERSION,
            version=VERSION,
            node=self._office.desk.node,
            uid=self._peer.uid,
            gid=self._peer.gid,
            groups=self._peer.groups,
            user=caller.user,
            root=self._office.permission.is_root(self._peer.uid),
            script_limit_bytes=self._office.desk.script_limit_bytes,
            output_pattern=self._office.desk.output_pattern,
            kill_plan=self._office.desk.kill_plan,
        )

    async def _next(self, within_s: float) -> Request:
        self.idle = True
        line = await self._lines.next(within_s)
        if line is None:
            raise _Over
        self.idle = False
        check_strings(line, self._bounds.strings)
        return decode(line, cast("type[Request]", Request), _NO_REQUEST)

    async def _turn(self, caller: Caller, request: Request) -> None:
        try:
            match request:
                case Wait():
                    with self._lasting():
                        await self._wait(caller, request)
                case Alloc():
                    with self._lasting():
                        await self._alloc(caller, request)
                case _:
                    await self._send(await self._office.answers.answer(caller, request))
        except (TooMuch, _Over):
            raise
        except SpurprocError as error:
            if isinstance(error, RecordInvalid) and error.path == _NO_REQUEST:  # any other is a record of ours
                raise
            await self._send(_refused(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours ends no agent
            self._office.on_fault(error)
            await self._send(Refused(kind=Refusal.FAILED, why=f"cannot answer: {type(error).__name__}, see the agent's log"))
        await self._lines.answered()
        await asyncio.sleep(0)  # a peer whose requests are all there already leaves the others their turn

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        """It may take as long as it likes, as one of so many."""
        lasting, uid, last = self._office.lasting, self._peer.uid, self._bounds.lasting_of_user
        if lasting[uid] >= last:
            raise TooMuch(f"user {uid} has {last} connections that wait already: the others are for what is answered at once")
        lasting[uid] += 1
        try:
            yield
        finally:
            lasting[uid] -= 1
            if not lasting[uid]:
                del lasting[uid]

    async def _wait(self, caller: Caller, request: Wait) -> None:
        """Tell of each change. Ends with the job, or with the peer, whichever is first."""
        job_id = request.job_id
        await self._office.answers.job_of(caller, job_id)
        self.idle = True
        with self._office.desk.news.of(job_id) as news:
            await self._until_gone(self._tell(job_id, news))
        self.idle = False

    async def _tell(self, job_id: int, news: asyncio.Event) -> None:
        ended = asyncio.ensure_future(self._office.desk.controller.ended(job_id))
        ended.add_done_callback(lambda _: news.set())
        try:
            last: Reply | None = None
            while not isinstance(last, Ended):
                news.clear()
                standing = await self._office.answers.standing(job_id)
                if standing != last:
                    await self._send(standing)
                last = standing
                if not isinstance(last, Ended):
                    await news.wait()
        finally:
            ended.cancel()

    async def _alloc(self, caller: Caller, request: Alloc) -> None:
        if request.for_s is not None and not 0 < request.for_s <= _RESERVED_LAST_S:
            raise InvalidArgument(f"for_s: {request.for_s!r} is not a number of seconds above 0, at most {_RESERVED_LAST_S:g}")
        for_s = self._office.desk.time_limit_s if request.for_s is None else request.for_s
        reservation = await self._office.desk.alloc(request.resources, uid=caller.peer.uid)
        try:
            reply = Reserved(attempt=reservation.attempt, allocation=reservation.allocation, env=reservation.env, for_s=for_s)
            await self._send(reply)
            self.idle = True
            with suppress(TimeoutError):
                async with asyncio.timeout(for_s):
                    await self._release()
        finally:
            await asyncio.shield(self._office.desk.release(reservation.attempt))
        await self._send(Done())

    async def _release(self) -> None:
        request = await self._next(_RESERVED_LAST_S)
        if not isinstance(request, Release):
            raise RecordInvalid(_NO_REQUEST, "a connection that has a reservation takes nothing but release")

    async def _until_gone(self, telling: Awaitable[None]) -> None:
        """Carry that out, unless the peer goes before. It has nothing to say meanwhile: what it does say ends the connection."""
        teller = asyncio.ensure_future(telling)
        listener = asyncio.ensure_future(self._lines.speaks())
        try:
            await asyncio.wait((teller, listener), return_when=asyncio.FIRST_COMPLETED)
            if not teller.done():
                if not await listener:
                    raise _Over
                raise RecordInvalid(_NO_REQUEST, "a connection that waits takes none")
            await teller
        finally:
            for task in (teller, listener):
                task.cancel()
            await asyncio.gather(teller, listener, return_exceptions=True)

    async def _send(self, reply: Reply) -> None:
        try:
            async with asyncio.timeout(self._bounds.taken_within_s):
                await asyncio.get_running_loop().sock_sendall(self._end, encode(reply) + b"\n")
        except (OSError, TimeoutError):  # it is gone, or takes nothing
            raise _Over from None

    async def _farewell(self, kind: Refusal, error: Exception) -> None:
        with suppress(_Over):
            await self._send(Refused(kind=kind, why=str(error)))


def _refused(error: SpurprocError) -> Refused:
    kind = next((kind for each, kind in _KINDS if isinstance(error, each)), Refusal.FAILED)
    return Refused(kind=kind, why=str(error))
