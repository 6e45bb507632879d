"""`spurproc-inspect tree` on real trees: who is in them, what they do, who has left, and who has gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.process_walk import ProcessRow, read_process
from spurproc.inspect import tree_usage
from spurproc.inspect.tree_members import Way, tree_members
from tests.inspect_program import PROGRAM, TIMEOUT_S, assert_one_line, inspect, inspect_json
from tests.kernel.test_vantage import _INNER_TREE
from tests.payload import Payload
from tests.recorded_payload import recorded_payload
from tests.relatives import Blocked, Foster, reborn
from tests.trees import inside, move

Start = Callable[..., Payload]


def tree(target: int | Path, *options: str | int, code: int = 0) -> dict[str, Any]:
    document = inspect_json("tree", target, *options)
    assert document["exit_code"] == code
    return document


def by_pid(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {process["pid"]: process for process in document["processes"]}


def row_of(pid: int) -> ProcessRow:
    row = read_process(pid)
    assert row is not None
    return row


@pytest.mark.needs_cgroup_v2
def test_a_grandchild_that_lost_its_parent_is_found_by_its_cgroup(tmp_path: Path) -> None:
    with recorded_payload("double_fork_setsid", tmp_path / "run") as job:
        job.wait_ready(2)
        document = tree(job.folder)
        leader, orphan = document["processes"]
        assert (leader["pid"], leader["escaped"], leader["depth"]) == (job.leader_pid, None, 0)
        assert leader["member_by"] == ["cgroup", "group", "leader"]
        assert (orphan["member_by"], orphan["escaped"], orphan["depth"]) == (["cgroup"], "re-parented", 0)
        assert document["liveness"] == "alive"
        text = inspect("tree", job.folder).out
        assert f"(re-parented to {orphan['parent_pid']})" in text
        assert text.isascii()
        assert "\x1b" not in text


@pytest.mark.needs_cgroup_v2
def test_who_was_moved_out_of_the_cgroup_has_escaped(tmp_path: Path, cgroup_root: Path) -> None:
    """By its parent and its group it is still known; a sub-cgroup of the tree's own is no escape."""
    with recorded_payload("many", tmp_path / "run", "2") as job:
        job.wait_ready()
        before = by_pid(tree(job.folder))
        one, other = before.keys() - {job.leader_pid}
        move(one, cgroup_root)
        assert job.run.record.cgroup is not None
        move(other, inside(Path(job.run.record.cgroup.path), "below"))
        document = tree(job.folder)
        after = by_pid(document)
        assert {pid: process["escaped"] for pid, process in after.items()} == {
            job.leader_pid: None,
            one: "outside-cgroup",
            other: None,
        }
        assert document["escaped_count"] == 1
        assert "cgroup" not in after[one]["member_by"]
        assert after[one]["parent_pid"] == job.leader_pid
        assert "(escaped: outside of the cgroup)" in inspect("tree", job.folder).out


def test_under_a_subreaper_the_orphan_is_found_below_it(tmp_path: Path) -> None:
    with recorded_payload("double_fork_setsid", tmp_path / "run", containment=Containment.DESCENDANTS) as job:
        job.wait_ready(2)
        leader, orphan = tree(job.folder)["processes"]
        assert leader["member_by"] == ["descendant", "group", "leader"]
        assert (orphan["member_by"], orphan["escaped"]) == (["descendant"], "re-parented")
        assert orphan["parent_pid"] == leader["parent_pid"]


@pytest.mark.needs_cgroup_v2
def test_a_run_of_which_nothing_is_left(tmp_path: Path) -> None:
    """Exit code 1: all that ran has ended, and a document that says so."""
    with recorded_payload("hold", tmp_path / "run") as job:
        job.release()
        job.run.wait(10)
        job.run.terminate()
        document = tree(job.folder, code=1)
        assert (document["processes"], document["count"], document["liveness"]) == ([], 0, "gone")


def test_states_are_told(payload: Start) -> None:
    """Stopped, blocked in the kernel, and what they use."""
    stopped, blocked = payload("hold"), payload("vforker")
    stopped.wait_ready()
    blocked.wait_ready()
    stopped.signal(signal.SIGSTOP)
    os.waitid(os.P_PIDFD, stopped.pidfd, os.WSTOPPED | os.WNOWAIT)
    process = tree(stopped.pid)["processes"][0]
    assert (process["state"], process["kernel_state"]) == ("stopped", "T")
    assert process["rss_bytes"] > 0
    assert process["cpu_s"] >= 0
    assert [one["state"] for one in tree(blocked.pid)["processes"]] == ["blocked", "sleeping"]
    stopped.signal(signal.SIGCONT)


def test_a_zombie_child_is_shown_and_is_not_alive(payload: Start) -> None:
    with Foster(payload, "exit", 3) as child:
        child.end()
        parent = row_of(child.pid).parent_pid
        document = tree(parent)
        zombie = by_pid(document)[child.pid]
        assert (zombie["state"], zombie["depth"]) == ("zombie", 1)
        assert tree(child.pid, code=1)["processes"][0]["state"] == "zombie"
        child.reap()


def test_a_leader_whose_main_thread_has_ended_is_alive(payload: Start) -> None:
    threads = payload("main_thread_exits")
    threads.wait_ready()
    assert tree(threads.pid)["processes"][0]["state"] == "main ended"


def test_a_name_cannot_draw_on_the_terminal() -> None:
    """Fifteen bytes of escape sequence, line end and broken UTF-8."""
    with Blocked(name=b"\x1b[2J\nroot \xff\xe2\x80") as hostile:
        done = inspect("tree", hostile.pid)
        assert done.code == 0
        lines = done.out.splitlines()
        assert lines[-1].endswith(r"\x1b[2J\nroot \xff\xe2\x80")
        assert done.out.isascii()
        assert "\x1b" not in done.out
        assert tree(hostile.pid)["processes"][0]["name"] == "\x1b[2J\nroot \\xff\\xe2\\x80"


def test_depth_and_number_are_bounded(payload: Start) -> None:
    many = payload("many", "30")
    many.wait_ready()
    assert inspect("tree", many.pid, "--limit", 5).out.splitlines()[-1] == "... 26 more"
    document = tree(many.pid, "--depth", 0)
    assert ([one["pid"] for one in document["processes"]], document["count"], document["omitted"]) == ([many.pid], 31, 30)
    assert tree(many.pid, "--limit", 0)["omitted"] == 31


def test_who_looks_is_not_shown() -> None:
    """The program is a child of this process, and no part of what is looked at."""
    with subprocess.Popen([PROGRAM, "tree", str(os.getpid()), "--json"], stdout=subprocess.PIPE) as looking:
        document = json.loads(looking.communicate(timeout=TIMEOUT_S)[0])
    assert os.getpid() in by_pid(document)
    assert looking.pid not in by_pid(document)


def test_bad_input_is_named_in_one_line() -> None:
    for arguments in (("tree",), ("tree", "0"), ("tree", "1", "--depth", "-1"), ("tree", "1", "--limit", "x")):
        done = inspect(*arguments)
        assert done.code == 2
        assert_one_line(done)


def test_a_process_that_is_gone_is_not_found() -> None:
    with Blocked() as gone:
        gone.reap()
        assert inspect("tree", gone.pid).code == 1


@pytest.mark.own_pid_namespace
def test_a_stranger_under_the_number_is_not_read() -> None:
    """The member ended, was reaped, and its number was given again, before it was read."""
    with Blocked(name=b"member") as member:
        row = row_of(member.pid)
        member.reap()
        with reborn(row.pid):
            stranger = row_of(row.pid)
            assert tree_usage.read_usage(stranger._replace(start_ticks=stranger.start_ticks - 1)) is None
            assert tree_usage.read_usage(stranger) is not None


@pytest.mark.own_pid_namespace
def test_a_stranger_who_comes_while_it_is_read_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if both had started in one tick, as is said here: the pidfd held meanwhile tells that the number has changed hands."""
    read = tree_usage._read
    strangers: list[Blocked] = []

    def changing_hands(pid: int) -> tuple[str | None, float | None, int | None]:
        member.reap()
        strangers.append(reborn(pid))
        return read(pid)

    member = Blocked(name=b"member")
    monkeypatch.setattr(tree_usage, "_read", changing_hands)
    monkeypatch.setattr(tree_usage, "same_process", lambda *_: True)
    assert tree_usage.read_usage(row_of(member.pid)) is None
    strangers[0].reap()


@pytest.mark.own_pid_namespace
@pytest.mark.needs_facility("pidfs_handle")
@pytest.mark.parametrize("kinds", [(), ("--time", "--boottime", "100000")], ids=["pid", "pid and time"])
def test_a_leader_named_in_a_child_namespace_is_found_by_its_number_here(kinds: tuple[str, ...]) -> None:
    """The number in its name is a stranger's here, and with a time namespace its start is another too."""
    with Blocked() as stranger:
        where = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", *kinds]
        command = [*where, sys.executable, "-c", _INNER_TREE, str(stranger.pid)]
        inner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert inner.stdout is not None
        identity = ProcessIdentity.from_text(inner.stdout.readline().strip())
        assert identity.pid == stranger.pid
        with identity.open() as held:
            leader, child = tree_members(ProcessTree(leader=Leader(identity=identity, pidfd=held)))
            assert leader.row.pid == held.pid != stranger.pid
            assert leader.ways == {Way.LEADER, Way.GROUP}
            assert (child.row.parent_pid, child.depth) == (leader.row.pid, 1)
        inner.communicate(timeout=TIMEOUT_S)
