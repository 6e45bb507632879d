"""A client of the agent's socket that blocks: what the commands use, and anybody's Python may."""

from __future__ import annotations

import errno
import math
import os
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar, cast

from spurproc.agent.cli.agent_socket import open_agent_socket
from spurproc.agent.cli.failure import AgentRefused, AgentUnreachable
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.messages import (
    Alloc,
    Cancel,
    CancelTaken,
    Changed,
    Done,
    Drain,
    Ended,
    Hello,
    JobDetail,
    JobList,
    Jobs,
    JobView,
    NodeStatus,
    Refusal,
    Refused,
    Release,
    Reply,
    Request,
    Requeue,
    RequeueTaken,
    Reserved,
    Resume,
    Show,
    Status,
    Submit,
    Submitted,
    Suspend,
    Undrain,
    Wait,
    Welcome,
)
from spurproc.errors import (
    AlreadyGone,
    Busy,
    InvalidArgument,
    NotPermitted,
    RecordInvalid,
    SpurprocError,
    Unsupported,
    WaitTimeout,
)
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode, encode
from spurproc.version import VERSION

__all__ = ["AgentClient"]

R = TypeVar("R", bound=Reply)
_READ_BYTES = 1 << 18
_REPLY_LIMIT_BYTES = 64 << 20


class AgentClient:
    """One connection: one request after the other. Owns its socket; use it as a context manager.

    What the agent refuses raises NotPermitted, AlreadyGone (no such job, or another user's), InvalidArgument, Unsupported (never
    here), Busy (not now) or AgentRefused; no answer, AgentUnreachable.
    """

    def __init__(self, end: socket.socket, where: str, timeout_s: float) -> None:
        """Takes `end`. See `connect`."""
        self._end = end
        self._where = where
        self._timeout_s = timeout_s
        self._bytes = bytearray()
        self.welcome = self._ask(Hello(program=f"spurd {VERSION}"), Welcome)
        """Who the agent is, and whom it takes us for."""

    @classmethod
    def connect(cls, path: str | os.PathLike[str], *, timeout_s: float = 30.0) -> Self:
        """Reach the agent that listens at `path`, however long that is. `timeout_s`: for this, and for each answer.

        It has to be root's or our own: others would get our script, and could say anything. Raises AgentUnreachable and
        NotPermitted.
        """
        where = os.path.abspath(path)
        end = open_agent_socket(where, timeout_s)
        try:
            return cls(end, where, timeout_s)
        except BaseException:
            end.close()
            raise

    def submit(self, spec: JobSpec, *, key: str | None = None) -> Submitted:
        """Put a job into the queue; durable once this returns. With a key it may be said again if no answer came."""
        return self._ask(Submit(spec=spec, key=key), Submitted)

    def jobs(self, *, uid: int | None = None, states: tuple[str, ...] = (), most: int | None = None) -> Iterator[JobView]:
        """The latest first, at most so many."""
        before, left = None, math.inf if most is None else most
        while left > 0:
            page = self._ask(Jobs(uid=uid, states=states, before=before, limit=int(min(left, 200))), JobList)
            yield from page.jobs
            left -= len(page.jobs)
            if not page.more:
                return
            before = page.jobs[-1].attempt.job_id

    def show(self, job_id: int) -> JobDetail:
        """All that is known of a job."""
        return self._ask(Show(job_id=job_id), JobDetail)

    def wait(self, job_id: int, *, timeout_s: float | None = None) -> Iterator[Changed | Ended]:
        """How the job stands, and each change; the last one is `Ended`. Raises WaitTimeout, and then the connection is over."""
        self.begin_wait(job_id)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            standing = self.standing(deadline)
            yield standing
            if isinstance(standing, Ended):
                return

    def begin_wait(self, job_id: int) -> None:
        """Ask to be told, and return at once: `standing` is the answer. For those who wait for other things as well."""
        self._send(Wait(job_id=job_id))

    def standing(self, deadline: float = math.inf) -> Changed | Ended:
        """The next that is told of a job. Raises WaitTimeout at `deadline`, which is a monotonic time."""
        standing = self._received(deadline)
        if not isinstance(standing, Changed | Ended):
            raise self._odd(standing)
        return standing

    @property
    def has_read_ahead(self) -> bool:
        """Whether something was read that was not asked for yet: no poll of the socket tells of it."""
        return bool(self._bytes)

    def cancel(self, attempt: AttemptId, *, why: str = "") -> str:
        """End exactly this attempt; returns what came of it, in words."""
        return self._ask(Cancel(attempt=attempt, why=why), CancelTaken).answer

    def suspend(self, attempt: AttemptId) -> None:
        """Freeze exactly this attempt."""
        self._ask(Suspend(attempt=attempt), Done)

    def resume(self, attempt: AttemptId) -> None:
        """Undo `suspend`."""
        self._ask(Resume(attempt=attempt), Done)

    def requeue(self, attempt: AttemptId, *, why: str = "") -> RequeueTaken:
        """Run the job once more; this attempt is ended first if it runs."""
        return self._ask(Requeue(attempt=attempt, why=why), RequeueTaken)

    def drain(self, why: str = "") -> bool:
        """Start nothing new. False: it was so before."""
        return self._ask(Drain(why=why), Done).changed

    def undrain(self) -> bool:
        """Undo `drain`. False: there was nothing to undo."""
        return self._ask(Undrain(), Done).changed

    def status(self) -> NodeStatus:
        """How the node is."""
        return self._ask(Status(), NodeStatus)

    def alloc(self, resources: ResourceRequest, *, for_s: float | None = None) -> Reserved:
        """Reserve that now, until `release`, until this connection ends, or for so long. Nothing else can be asked meanwhile."""
        return self._ask(Alloc(resources=resources, for_s=for_s), Reserved)

    def release(self) -> None:
        """Give back what was reserved."""
        self._ask(Release(), Done)

    def await_released(self) -> None:
        """Until the time of a reservation is over. Raises AgentUnreachable when the agent ends before."""
        reply = self._received(math.inf)
        if not isinstance(reply, Done):
            raise self._odd(reply)

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._end.fileno()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: Request, kind: type[R]) -> R:
        self._send(request)
        try:
            reply = self._received(time.monotonic() + self._timeout_s)
        except WaitTimeout as error:
            raise AgentUnreachable(str(error)) from None
        if not isinstance(reply, kind):
            raise self._odd(reply)
        return reply

    def _send(self, request: Request) -> None:
        self._end.settimeout(self._timeout_s)
        try:
            self._end.sendall(encode(request) + b"\n")
        except TimeoutError:
            raise AgentUnreachable(str(self._silent())) from None
        except OSError:
            return  # it has hung up, and most likely has said why

    def _received(self, deadline: float) -> Reply:
        reply = decode(self._line(deadline), cast("type[Reply]", Reply), "the agent's answer")
        if isinstance(reply, Refused):
            raise _error_of(reply)
        return reply

    def _line(self, deadline: float) -> bytes:
        while (end := self._bytes.find(b"\n")) < 0:
            if len(self._bytes) > _REPLY_LIMIT_BYTES:
                raise RecordInvalid("the agent's answer", f"it has more than {_REPLY_LIMIT_BYTES} bytes")
            self._bytes += self._some(deadline)
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        return line

    def _some(self, deadline: float) -> bytes:
        left_s = deadline - time.monotonic()
        self._end.settimeout(None if left_s == math.inf else max(0.001, left_s))
        try:
            content = self._end.recv(_READ_BYTES)
        except TimeoutError:
            raise self._silent() from None
        except OSError as error:
            raise self._hung_up(os.strerror(error.errno or 0)) from None
        if not content:
            raise self._hung_up("it hung up")
        return content

    def _silent(self) -> WaitTimeout:
        return WaitTimeout(f"the agent at {self._where!r} has not answered in time")

    def _hung_up(self, why: str) -> AgentUnreachable:
        return AgentUnreachable(f"cannot ask the agent at {self._where!r}: {why}; ask again once it is there")

    def _odd(self, reply: object) -> RecordInvalid:
        return RecordInvalid("the agent's answer", f"{type(reply).__name__} is none to what was asked")


def _error_of(refused: Refused) -> SpurprocError:
    match refused.kind:
        case Refusal.NOT_PERMITTED:
            return NotPermitted(errno.EPERM, refused.why)
        case Refusal.NOT_FOUND:
            return AlreadyGone(errno.ENOENT, refused.why)
        case Refusal.INVALID:
            return InvalidArgument(refused.why)
        case Refusal.UNSUPPORTED:
            return Unsupported(refused.why)
        case Refusal.BUSY:
            return Busy(errno.EAGAIN, refused.why)
        case _:
            return AgentRefused(refused.why)
