"""Who may do what at the agent's socket."""

from __future__ import annotations

import resource
import signal
from typing import Any

import pytest

from spurproc.agent.service.peers import Peer
from spurproc.agent.service.permission import Permission
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted
from tests.agent_values import job_spec

ROOT, OTHER, USER = 0, 1001, 1000
OF_ROOT = Permission(agent_uid=ROOT, ceilings={resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_CORE: -1})
OF_USER = Permission(agent_uid=USER, ceilings={})
PEER = Peer(pid=9, uid=USER, gid=100, groups=(100, 27))


def own(**fields: Any) -> Any:
    return job_spec(**{"uid": USER, "gid": 100, "groups": (27,), "user": "me"} | fields)


@pytest.mark.parametrize(
    ("permission", "asks", "owner", "sees"),
    [
        (OF_ROOT, ROOT, USER, True),
        (OF_ROOT, USER, USER, True),
        (OF_ROOT, USER, ROOT, False),
        (OF_ROOT, USER, OTHER, False),
        (OF_USER, USER, OTHER, True),
        (OF_USER, ROOT, USER, True),
        (OF_USER, OTHER, USER, False),
    ],
)
def test_who_sees_what(permission: Permission, asks: int, owner: int, sees: bool) -> None:
    assert permission.sees(asks, owner) is sees
    if sees:
        permission.check_sees(asks, owner, 7)
        return
    with pytest.raises(AlreadyGone) as refused:
        permission.check_sees(asks, owner, 7)
    assert str(refused.value) == str(permission.not_found(asks, 7))


def test_only_root_does_what_is_roots() -> None:
    OF_ROOT.check_root(ROOT, "drain the node")
    OF_USER.check_root(USER, "drain the node")
    with pytest.raises(NotPermitted, match="cannot drain the node: only root may"):
        OF_ROOT.check_root(USER, "drain the node")
    with pytest.raises(NotPermitted, match="only root or user 1000 may"):
        OF_USER.check_root(OTHER, "drain the node")


def test_whose_jobs_may_be_listed() -> None:
    OF_ROOT.check_uid_asked(USER, None)
    OF_ROOT.check_uid_asked(USER, USER)
    OF_ROOT.check_uid_asked(ROOT, USER)
    with pytest.raises(NotPermitted, match="user 1001: you are user 1000"):
        OF_ROOT.check_uid_asked(USER, OTHER)


@pytest.mark.parametrize("fields", [{}, {"gid": 27}, {"groups": ()}, {"groups": (27, 100)}])
def test_a_user_submits_as_themselves(fields: dict[str, Any]) -> None:
    OF_ROOT.check_submission(PEER, "me", own(**fields))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"uid": OTHER}, "for user 1001: you are user 1000"),
        ({"uid": ROOT}, "for user 0: you are user 1000"),
        ({"gid": 0}, "as group 0: you are not in it"),
        ({"groups": (27, 4)}, "as group 4: you are not in it"),
        ({"user": "root"}, "as 'root': your name is 'me'"),
        ({"limits": {resource.RLIMIT_NOFILE: (10, 1025)}}, "the agent's own is 1024"),
        ({"limits": {resource.RLIMIT_NOFILE: (10, -1)}}, "the agent's own is 1024"),
    ],
)
def test_a_user_submits_as_nobody_else(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(NotPermitted, match=why):
        OF_ROOT.check_submission(PEER, "me", own(**fields))
    root = Peer(pid=9, uid=ROOT, gid=0, groups=())
    OF_ROOT.check_submission(root, "root", own(**fields))


def test_limits_may_be_lowered_and_unlimited_stays_so() -> None:
    limits = {resource.RLIMIT_NOFILE: (10, 1024), resource.RLIMIT_CORE: (-1, -1)}
    OF_ROOT.check_submission(PEER, "me", own(limits=limits))
    with pytest.raises(InvalidArgument, match="there is no limit 200"):
        OF_ROOT.check_submission(PEER, "me", own(limits={200: (1, 1)}))


@pytest.mark.parametrize("asks", [ROOT, OTHER])
def test_a_rootless_agent_runs_its_own_users_jobs_alone(asks: int) -> None:
    peer = Peer(pid=9, uid=asks, gid=100, groups=())
    with pytest.raises(NotPermitted, match="the agent runs as user 1000"):
        OF_USER.check_submission(peer, "me", own(uid=asks))
    OF_USER.check_submission(PEER, "me", own())


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([(signal.SIGWINCH, 0.5)], "kill_plan: its last signal has to be SIGKILL"),
        ([(signal.SIGKILL, 1.0), (signal.SIGTERM, None)], "kill_plan: its last signal has to be SIGKILL"),
        ([(signal.SIGTERM, 3000.0), (signal.SIGINT, 601.0), (signal.SIGKILL, None)], "kill_plan: it takes more than 3600 s"),
    ],
)
def test_a_user_keeps_a_node_from_nobody(steps: list[tuple[int, float | None]], why: str) -> None:
    """Their time limit, and root who ends their job, get it back."""
    plan = KillPlan(steps=tuple(steps))
    with pytest.raises(InvalidArgument, match=why):
        OF_ROOT.check_submission(PEER, "me", own(kill_plan=plan))
    OF_ROOT.check_submission(Peer(pid=9, uid=ROOT, gid=0, groups=()), "root", own(kill_plan=plan))
    OF_ROOT.check_submission(PEER, "me", own(kill_plan=KillPlan(steps=((signal.SIGTERM, 3600.0), (signal.SIGKILL, 5.0)))))
