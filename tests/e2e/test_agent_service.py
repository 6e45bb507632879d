"""The agent's socket, by a real service on a real controller: what is asked is done, once, for who may ask."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.cli.failure import AgentRefused, AgentUnreachable
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.listening import Address
from spurproc.agent.service.replies import Changed, Ended
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, NotPermitted, SystemCallError, Unsupported, WaitTimeout
from spurproc.proto.attempt_id import AttemptId
from tests.agent_service import SAID_WITHIN_S, AgentDesk, spec_of
from tests.pace import at_this_pace
from tests.relatives import NOBODY, in_fork


@pytest.fixture
def client(desk: AgentDesk) -> Iterator[AgentClient]:
    """Root's, or our own."""
    with desk.client() as made:
        yield made


def test_a_job_is_there_once_for_each_key(client: AgentClient) -> None:
    spec = spec_of(client)
    first = client.submit(spec, key="a")
    assert (first.job_id, first.repeated) == (1, False)
    again = client.submit(spec, key="a")
    assert (again.job_id, again.repeated) == (1, True)
    assert client.submit(spec).job_id == 2
    with pytest.raises(InvalidArgument, match="'a' was used for job 1"):
        client.submit(spec_of(client, name="other"), key="a")


def test_an_agent_that_does_not_own_its_folder_acknowledges_nothing(desk: AgentDesk, client: AgentClient) -> None:
    """Each request for a change is refused, with the reason, and changes nothing; what was known can still be asked."""
    client.submit(spec_of(client))
    attempt = AttemptId.parse(desk.do("dispatch"))
    spec, why = spec_of(client), "the folder was removed"
    before = (client.show(1), client.status().drains)
    desk.do("lose", why)
    changes: list[Callable[[], object]] = [
        partial(client.submit, spec),
        *(partial(change, attempt) for change in (client.cancel, client.suspend, client.resume, client.requeue)),
        client.drain,
        client.undrain,
    ]
    for change in changes:
        with pytest.raises(AgentRefused, match=why):
            change()
    assert (client.show(1), client.status().drains) == before
    assert [job.attempt.job_id for job in client.jobs()] == [1]


def test_a_wait_tells_of_each_change(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    with desk.client() as waiting:
        standings = waiting.wait(1, timeout_s=at_this_pace(SAID_WITHIN_S))
        assert next(standings).job.state == "queued"
        for phase in ("prolog", "running", "suspended"):
            if phase == "prolog":
                desk.do("dispatch", phase)
            else:
                desk.do("move", "1.1", phase)
            standing = next(standings)
            assert isinstance(standing, Changed)
            assert standing.job.phase == phase
        desk.do("end", "1.1", "signaled", 15)
        last = next(standings)
        assert isinstance(last, Ended)
        assert last.attempt is not None
        assert last.attempt.end is not None
        assert (last.attempt.end.signal, last.attempt.cancelled) == (15, False)
        assert list(standings) == []
        assert waiting.show(1).job.state == "ended"


def test_a_wait_has_its_time(client: AgentClient) -> None:
    client.submit(spec_of(client))
    told: list[Changed | Ended] = []
    with pytest.raises(WaitTimeout):
        told += client.wait(1, timeout_s=0.1)
    assert len(told) <= 1


def test_a_list_has_pages_and_is_complete(client: AgentClient) -> None:
    for _ in range(7):
        client.submit(spec_of(client))
    ids = [job.attempt.job_id for job in client.jobs()]
    assert ids == [7, 6, 5, 4, 3, 2, 1]
    assert [job.attempt.job_id for job in client.jobs(most=3)] == [7, 6, 5]
    assert list(client.jobs(states=("ended",))) == []
    with pytest.raises(InvalidArgument, match="'over' is none of queued"):
        list(client.jobs(states=("over",)))


def test_a_list_of_more_than_a_page(client: AgentClient) -> None:
    spec = spec_of(client)
    for _ in range(201):
        client.submit(spec)
    assert len(list(client.jobs())) == 201


def test_a_list_says_how_a_job_ended(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    desk.run("exited", 3)
    [job] = client.jobs()
    assert job.end is not None
    assert job.end.code == 3


def test_what_is_asked_of_an_attempt_is_done_to_no_other(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    desk.do("dispatch")
    for act in (client.cancel, client.suspend, client.resume, client.requeue):
        with pytest.raises(AgentRefused, match=r"attempt 1\.2: it is not the one that counts any more, it is 1"):
            act(AttemptId(1, 2))
    assert client.show(1).job.phase == "running"
    client.suspend(AttemptId(1, 1))
    assert client.show(1).job.phase == "suspended"
    client.resume(AttemptId(1, 1))
    assert client.cancel(AttemptId(1, 1), why="enough") == "asked"
    [attempt] = client.show(1).attempts
    assert (attempt.cancelled, attempt.cancelled_because, attempt.end) == (True, "enough", None)


def test_a_cancelled_job_of_the_queue_ends_its_wait(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    with desk.client() as waiting:
        standings = waiting.wait(1, timeout_s=at_this_pace(SAID_WITHIN_S))
        next(standings)
        assert client.cancel(AttemptId(1, 1)) == "ended in the queue"
        last = next(standings)
    assert isinstance(last, Ended)
    assert last.attempt is not None
    assert last.attempt.cancelled


def test_a_job_runs_again(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    with pytest.raises(Busy, match="in the queue"):
        client.requeue(AttemptId(1, 1))
    desk.run()
    done = client.requeue(AttemptId(1, 1))
    assert (done.attempt, done.now) == (AttemptId(1, 2), True)


def test_what_never_fits_is_refused_and_so_is_what_is_not_there(client: AgentClient) -> None:
    with pytest.raises(Unsupported, match="9 wanted"):
        client.submit(spec_of(client, resources=ResourceRequest(cpus=9)))
    with pytest.raises(AlreadyGone, match="cannot find job 77: there is none"):
        client.show(77)
    with pytest.raises(InvalidArgument, match="job_id"):
        client.show(-1)
    assert list(client.jobs()) == []


def test_a_drain_is_told_of(client: AgentClient) -> None:
    assert client.drain("new disk") is True
    assert client.drain("new disk") is False
    [drain] = client.status().drains
    assert drain.why == "new disk"
    assert client.undrain() is True
    assert client.undrain() is False


def test_a_reservation_lives_as_long_as_its_connection(desk: AgentDesk, client: AgentClient) -> None:
    with desk.client() as holder:
        assert holder.alloc(ResourceRequest()).env == {"SPURD_CPUS": "0"}
        with pytest.raises(Busy, match="4 of 4 CPUs are in use"):
            client.alloc(ResourceRequest())
        holder.release()
        assert desk.line() == "released"
        holder.alloc(ResourceRequest())
    assert desk.line() == "released"
    client.alloc(ResourceRequest(), for_s=0.05)
    client.await_released()
    assert desk.line() == "released"
    for wrong in (0.0, -1.0, 1e300):
        with pytest.raises(InvalidArgument, match="for_s"):
            client.alloc(ResourceRequest(), for_s=wrong)


def as_nobody(desk: AgentDesk, what: Any) -> Any:
    """What another user is told, who has nothing but the socket."""

    def answer() -> Any:
        with desk.client() as client:
            return what(client)

    return in_fork(answer, uid=NOBODY)


@pytest.mark.needs_root
def test_another_user_sees_and_does_nothing(desk: AgentDesk, client: AgentClient) -> None:
    client.submit(spec_of(client))
    desk.do("dispatch")

    def try_all(other: AgentClient) -> list[str]:
        told = []
        job = AttemptId(1, 1)
        for act in (
            lambda: other.show(1),
            lambda: next(other.wait(1)),
            lambda: other.cancel(job),
            lambda: other.suspend(job),
            lambda: other.resume(job),
            lambda: other.requeue(job),
            lambda: other.show(2),
            other.drain,
            other.undrain,
            lambda: list(other.jobs(uid=0)),
            lambda: other.submit(spec_of(client)),
        ):
            try:
                told.append(str(act()))
            except (AlreadyGone, NotPermitted) as error:
                told.append(f"{type(error).__name__}: {error}")
        return [*told, str(list(other.jobs())), str(other.status().held)]

    told = as_nobody(desk, try_all)
    hidden = "AlreadyGone: cannot find job {}: there is none, or it is another user's"
    assert told[:6] == [hidden.format(1)] * 6
    assert told[6] == hidden.format(2)
    assert told[7] == "NotPermitted: cannot drain the node: only root may"
    assert told[8] == "NotPermitted: cannot undrain the node: only root may"
    assert told[9] == f"NotPermitted: cannot list the jobs of user 0: you are user {NOBODY}"
    assert told[10] == f"NotPermitted: cannot submit for user 0: you are user {NOBODY}"
    assert told[11:] == ["[]", "()"]
    assert client.show(1).job.phase == "running"


@pytest.mark.needs_root
def test_another_user_has_jobs_of_their_own_which_root_sees(desk: AgentDesk, client: AgentClient) -> None:
    def submit(other: AgentClient) -> list[Any]:
        other.submit(spec_of(other), key="a")
        other.cancel(AttemptId(2, 1))
        return [[job.attempt.job_id for job in other.jobs()], other.welcome.root, other.welcome.uid]

    client.submit(spec_of(client), key="a")
    assert as_nobody(desk, submit) == [[2], False, NOBODY]
    assert [(job.uid, job.attempt.job_id) for job in client.jobs()] == [(NOBODY, 2), (0, 1)]
    assert [job.attempt.job_id for job in client.jobs(uid=NOBODY)] == [2]


@pytest.mark.needs_root
def test_root_submits_for_somebody_else(client: AgentClient) -> None:
    client.submit(spec_of(client, uid=NOBODY, gid=NOBODY, groups=(), user="nobody"))
    [job] = client.jobs()
    assert (job.uid, job.user, job.submitted_by) == (NOBODY, "nobody", 0)


@pytest.mark.needs_root
@pytest.mark.parametrize("count", [2, 256, 257, 5000])
def test_groups_are_those_of_the_process(desk: AgentDesk, count: int) -> None:
    """Not those that a database says its user has: who gave some up does not get them back by a job."""

    def groups() -> list[int]:
        os.setgroups(range(1000, 1000 + count))
        os.setresgid(77, 77, 77)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        with desk.client() as other:
            other.submit(spec_of(other))
            with pytest.raises(NotPermitted, match="as group 27"):
                other.submit(spec_of(other, groups=(27,)))
            return [other.welcome.gid, *sorted(other.welcome.groups)]

    assert in_fork(groups) == [77, *range(1000, 1000 + count)]


@pytest.mark.needs_root
def test_an_agent_of_another_user_is_not_trusted(tmp_path: Path, commons: Path) -> None:
    """It would get the script, and could say anything."""
    path = commons / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o666)

        def listen() -> int:
            listener.listen()
            return 0

        in_fork(listen, uid=NOBODY)
        with pytest.raises(NotPermitted, match=f"it is user {NOBODY}'s"):
            AgentClient.connect(path)


def test_a_long_path_is_reached(commons: Path) -> None:
    with AgentDesk(commons / ("n" * 200)) as desk, desk.client() as client:
        assert client.status().node == "testnode"


def test_an_address_is_replaced_and_removed_if_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    first = Address.listen_at(str(path))
    assert path.is_socket()
    assert path.stat().st_mode & 0o777 == 0o666
    second = Address.listen_at(str(path))
    first.close()
    assert path.is_socket()
    second.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/nowhere")])
def test_what_is_no_socket_is_not_replaced(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """A path that was mistyped may be somebody's file."""
    path = tmp_path / "s"
    make(path)
    before = path.lstat()
    with pytest.raises(SystemCallError, match=f"cannot listen at '{path}': what stands there is no socket"):
        Address.listen_at(str(path))
    assert (path.lstat(), list(tmp_path.iterdir())) == (before, [path])


def test_an_address_in_a_removed_folder_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY)
    try:
        folder.rmdir()
        with pytest.raises(AlreadyGone, match="cannot listen at 's'"):
            Address.listen(fd, "s")
    finally:
        os.close(fd)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "there is no socket; start it with `spurd serve`"),
        (lambda path: path.write_text(""), "what stands there is no socket"),
        (lambda path: path.mkdir(), "what stands there is no socket"),
        (lambda path: path.symlink_to("nowhere"), "there is no socket"),
    ],
)
def test_no_agent(tmp_path: Path, make: Any, why: str) -> None:
    make(tmp_path / "s")
    with pytest.raises(AgentUnreachable, match=why):
        AgentClient.connect(tmp_path / "s")


def test_an_agent_that_says_nothing(tmp_path: Path) -> None:
    """Stopped, or none: a bound on every answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        with pytest.raises(AgentUnreachable, match="has not answered in time"):
            AgentClient.connect(tmp_path / "s", timeout_s=0.1)
        fill = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        try:
            for each in fill:
                each.setblocking(False)
                each.connect_ex(str(tmp_path / "s"))
            with pytest.raises(AgentUnreachable, match="it takes no connection"):
                AgentClient.connect(tmp_path / "s", timeout_s=0.1)
        finally:
            for each in fill:
                each.close()


def test_who_waits_does_not_keep_an_agent_from_ending(commons: Path) -> None:
    """They are hung up on at once; only what is being carried out would be waited for."""
    with AgentDesk(commons / "state", answered_within_s=1e6) as desk, desk.client() as submitting, desk.client() as waiting:
        submitting.submit(spec_of(submitting))
        standings = waiting.wait(1, timeout_s=at_this_pace(SAID_WITHIN_S))
        next(standings)
        assert desk.stop() == 0
        with pytest.raises(AgentUnreachable, match="it hung up; ask again"):
            next(standings)
