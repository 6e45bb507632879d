"""Messages of the agent's socket: what one side says is what the other reads, and what is no message is refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service import replies, requests
from spurproc.agent.service.replies import (
    Changed,
    Done,
    Ended,
    JobDetail,
    JobList,
    NodeStatus,
    Refusal,
    Refused,
    Reply,
    Reserved,
    Welcome,
)
from spurproc.agent.service.requests import Alloc, Cancel, Hello, Request, Submit, Wait
from spurproc.agent.service.shown import AttemptView, JobView
from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode, encode
from spurproc.proto.raw_text import RawBytes
from tests.agent_values import exited, job_spec

ATTEMPT = AttemptId(7, 2)
VIEW = JobView(attempt=ATTEMPT, state="queued", name="a", uid=1, user="u", submitted_by=1, submitted_at=1.5)


def read(content: bytes, kind: Any) -> Any:
    return decode(content, kind, "a message")


@pytest.mark.parametrize(
    "request_",
    [
        Hello(program="x"),
        Submit(spec=job_spec(env=(RawBytes(b"A=\xff"),), resources=ResourceRequest(cpus=3, generic={"x": 1})), key="k"),
        Submit(spec=job_spec(script=b"#!/bin/sh\n\xff\x1b\n")),
        Wait(job_id=2**63 - 1),
        Cancel(attempt=ATTEMPT, why="\x1b[31m\u202e"),
        Alloc(resources=ResourceRequest(cpus=2), for_s=1.5),
    ],
)
def test_request_comes_back(request_: Request) -> None:
    assert read(encode(request_), Request) == request_


@pytest.mark.parametrize(
    "reply",
    [
        Welcome(
            v=1,
            version="1",
            node="n",
            uid=1,
            gid=2,
            groups=(3,),
            user="u",
            root=False,
            script_limit_bytes=5,
            output_pattern="o",
            kill_plan=KillPlan.default(),
        ),
        Refused(kind=Refusal.BUSY, why="not now"),
        JobList(jobs=(VIEW,), more=True),
        JobDetail(job=VIEW, attempts=(AttemptView(attempt=ATTEMPT, end=exited(3), allocation=Allocation(cpus=(1,))),)),
        Changed(job=VIEW),
        Ended(job=VIEW, attempt=AttemptView(attempt=ATTEMPT, end=ExitInfo.unknown("lost"))),
        Done(changed=False),
        Reserved(attempt=ATTEMPT, allocation=Allocation(cpus=(0, 1)), env={"A": "1"}),
        NodeStatus(node="n", version="1", boot_id="b", agent_uid=0, started_at=1.0, registered=True, jobs={"running": 2}),
    ],
)
def test_reply_comes_back(reply: Reply) -> None:
    assert read(encode(reply), Reply) == reply


def test_every_message_is_in_its_union() -> None:
    """One that is defined and cannot be said would be dead."""
    for base, union in ((requests._Request, Request), (replies._Reply, Reply)):
        assert set(base.__subclasses__()) == set(union.__args__)


def test_unknown_fields_are_left_out() -> None:
    """A later release of the same version may say more."""
    assert read(b'{"request": "wait", "job_id": 3, "later": [1]}', Request) == Wait(job_id=3)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"{}", "request"),
        (b'{"request": "reboot"}', "reboot"),
        (b'{"request": "wait"}', "job_id"),
        (b'{"request": "wait", "job_id": "7"}', "job_id"),
        (b'{"request": "cancel", "attempt": {"job_id": 7, "run_attempt": 0}}', "attempt"),
        (b'{"request": "cancel", "attempt": {"job_id": 7}}', "run_attempt"),
        (b'{"request": "cancel", "job_id": 7}', "attempt"),
        (b"\xff\xfe", "a message"),
        (b"[" * 100_000, "a message"),
        (b'{"request": "wait", "job_id": 1e400}', "a message"),
        (b"", "a message"),
    ],
)
def test_what_is_no_request_is_refused(content: bytes, names: str) -> None:
    with pytest.raises(RecordInvalid, match=names):
        read(content, Request)


def test_a_field_of_a_later_spec_is_refused() -> None:
    """A limit that an agent does not know is not left out: the job would run with less than was asked for."""
    said = json.loads(encode(Submit(spec=job_spec())))
    said["spec"]["memory_swap"] = 1
    with pytest.raises(RecordInvalid, match="memory_swap"):
        read(json.dumps(said).encode(), Request)
