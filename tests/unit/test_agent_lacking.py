"""What the node lacks, and what it does not, without a node."""

from __future__ import annotations

import asyncio
import errno
from typing import Any, cast

import pytest

from spurproc.agent.attempts import lacking
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.lacking import Lacking
from spurproc.agent.resources.allocation import Allocation
from spurproc.errors import InvalidArgument, SpawnError, SpurprocError, SystemCallError, Unsupported, WaitTimeout, from_errno
from spurproc.proto.attempt_id import AttemptId
from tests.agent_around import surroundings

_NONE = cast("Any", None)


def _attempt(job_id: int) -> Attempt:
    return Attempt(id=AttemptId(job_id, 1), allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0)


_CERTAIN: list[SpurprocError] = [
    from_errno(number, "make", "a folder")
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EROFS)
]
_OPEN: list[SpurprocError] = [
    SystemCallError(errno.ECONNRESET, "the host has ended"),
    SpawnError(errno.ENOENT, "EXEC", "spurstepd"),
    WaitTimeout("its supervisor is not ready"),
]
_NO_LACK: list[SpurprocError] = [
    InvalidArgument("the job asks for what cannot be"),
    Unsupported("there is no memory controller"),
    from_errno(errno.EACCES, "open", "a folder"),
    from_errno(errno.EPERM, "make", "a folder"),
    from_errno(errno.EINVAL, "write", "a limit"),
    from_errno(errno.E2BIG, "make", "a step"),
]


@pytest.mark.parametrize(
    ("errors", "at_first", "in_the_end"),
    [(_CERTAIN, True, True), (_OPEN, True, False), (_NO_LACK, False, False)],
    ids=["certain", "open", "none"],
)
def test_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, errors: list[SpurprocError], *, at_first: bool, in_the_end: bool
) -> None:
    """What passes, for ever; what may pass, for so long; what a job can bring about by what it asks for, not at all."""
    monkeypatch.setattr(lacking, "_FIRST_S", 0.0)

    def waited_for(error: SpurprocError) -> bool:
        around = surroundings()
        answer = asyncio.run(Lacking(around).passes(_attempt(1), error))
        assert bool(around.drains) is answer
        return answer

    assert {waited_for(error) for error in errors} == {at_first}
    monkeypatch.setattr(lacking, "_OPEN_WITHIN_S", 0.0)
    assert {waited_for(error) for error in errors} == {in_the_end}


def test_the_node_drains_until_something_is_started_or_nobody_waits() -> None:
    """One that is started lets all others try at once; one that ends leaves the drain to those that wait."""
    around = surroundings()
    full = from_errno(errno.ENOSPC, "make", "a folder")

    async def scene() -> None:
        lack, (one, two, three) = Lacking(around), map(_attempt, (1, 2, 3))
        waiting = [asyncio.ensure_future(lack.passes(each, full)) for each in (one, two, three)]
        await asyncio.sleep(0)
        assert [drain.cause for drain in around.drains] == ["launch"]
        lack.look(one)
        assert await waiting[0]
        lack.left(one)
        assert around.drains
        lack.started(two)
        assert not around.drains
        assert await waiting[2]
        assert lack.has_tried(three)
        lack.left(three)
        waiting[1].cancel()

    asyncio.run(scene())
    assert not around.drains
