"""`spurd logs`: a job's file, read with the rights of who asks and no others, whatever the job has put there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.agent.cli.exit_code import ExitCode
from tests.agent_service import AgentDesk
from tests.inspect_program import TIMEOUT_S, Said
from tests.relatives import NOBODY, in_fork
from tests.spurd_command import PROGRAM, Spurd, assert_one_line, ended, line_of


@pytest.fixture
def job(spurd: Spurd, desk: AgentDesk, tmp_path: Path) -> Path:
    """The output of a job that runs, in a folder of its user; nothing is there yet."""
    assert spurd.here("submit", "--workdir", tmp_path, "-o", "out", "-e", "err", "--", "true").code == 0
    desk.do("dispatch")
    return tmp_path / "out"


def test_bytes_come_as_they_are(spurd: Spurd, job: Path) -> None:
    job.write_bytes(b"a\x1b[31m\xff\n")
    job.with_name("err").write_bytes(b"oops")
    with spurd.start("logs", "1") as process:
        out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"a\x1b[31m\xff\n", b"")
    assert spurd("logs", "--stderr", "1.1").out == "oops"


def test_closed_standard_output_is_said_and_no_other_file_is_written(spurd: Spurd, job: Path) -> None:
    """Whatever was opened first has its number then: the connection to the agent, or the file itself."""
    job.write_bytes(b"hello\n")
    command = ["sh", "-c", 'exec "$@" >&-', "sh", str(PROGRAM), "logs", "1"]
    done = subprocess.run(command, capture_output=True, env=spurd.env, timeout=TIMEOUT_S, check=False)
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert said.code == 1
    assert_one_line(said, "standard output is closed")


def test_a_job_is_followed_to_its_end(spurd: Spurd, desk: AgentDesk, job: Path) -> None:
    """From before there is a file, over what is added, truncated, and written just before the end."""
    with spurd.start("logs", "-f", "1") as process:
        job.write_text("one\n")
        assert line_of(process) == "one"
        with job.open("a") as file:
            file.write("two\n")
        assert line_of(process) == "two"
        job.write_text("")
        with job.open("a") as file:
            file.write("last\n")
        desk.do("end", "1.1", "exited", 0)
        said = ended(process)
    assert (said.code, said.err) == (0, "")
    assert said.out in ("last\n", "")  # as long as what was there, it could not be told from it


def test_following_ends_with_its_reader(spurd: Spurd, job: Path) -> None:
    """As of `logs -f 1 | head -n 1`: not only when the job writes again, which may be never."""
    job.write_text("one\n")
    with spurd.start("logs", "-f", "1") as process:
        assert line_of(process) == "one"
        assert process.stdout is not None
        process.stdout.close()
        try:
            assert process.wait(TIMEOUT_S) == ExitCode.BROKEN_PIPE
        finally:
            process.kill()


def test_following_begins_before_the_job(spurd: Spurd, desk: AgentDesk, tmp_path: Path) -> None:
    spurd.here("submit", "--workdir", tmp_path, "-o", "out", "--", "true")
    assert_one_line(spurd.here("logs", 1), "cannot read the output of job 1: it has not begun")
    with spurd.start("logs", "-f", "1") as process:
        desk.do("dispatch")
        (tmp_path / "out").write_text("hello\n")
        assert line_of(process) == "hello"
        desk.do("end", "1.1", "exited", 0)
        assert ended(process) == (0, "", "")


def test_an_attempt_that_is_followed_ends_with_it(spurd: Spurd, desk: AgentDesk, job: Path) -> None:
    job.write_text("one\n")
    with spurd.start("logs", "-f", "1") as process:
        assert line_of(process) == "one"
        spurd.here("requeue", 1)
        desk.do("end", "1.1", "exited", 0)
        assert ended(process) == (0, "", "")


def test_no_output_is_said(spurd: Spurd, job: Path) -> None:
    for arguments, why in (
        (["1"], "No such file"),
        (["1.2"], "there is no such attempt"),
        (["2"], "cannot find job 2"),
        (["1", "--json"], "cannot print a job's output as JSON"),
    ):
        said = spurd.here("logs", *arguments)
        assert said.code == (5 if "--json" in arguments else 1)
        assert said.err.count("\n") == 1
        assert why in said.err


_PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda path: path.symlink_to("/etc/hostname"), "it is a symbolic link"),
    "fifo": (os.mkfifo, "it is a FIFO"),
    "folder": (lambda path: path.mkdir(), "it is a folder"),
    "device": (lambda path: os.mknod(path, 0o20666, os.makedev(1, 5)), "it is a device"),
    "name": (lambda path: os.link("/etc/hostname", path), "names"),
}


@pytest.mark.needs_root
@pytest.mark.parametrize("what", _PLANTED)
def test_what_a_job_plants_is_not_opened(spurd: Spurd, desk: AgentDesk, commons: Path, what: str) -> None:
    """Neither as root nor as oneself; and a FIFO is waited for by nobody."""
    plant, why = _PLANTED[what]
    folder = commons / "job"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    submitted = spurd.here("submit", "--user", str(NOBODY), "--workdir", folder, "-o", "out", "--", "true")
    assert submitted.code == 0
    desk.do("dispatch")
    if what == "name":
        (commons / "secret").write_text("root's\n")
        (commons / "secret").chmod(0o600)
        os.link(commons / "secret", folder / "out")
    else:
        plant(folder / "out")
    said = spurd("logs", "1")
    assert said.code == 1
    assert_one_line(said, "cannot trust", "it belongs to user 0" if what == "name" else why)


@pytest.mark.needs_root
def test_root_reads_as_the_jobs_user(spurd: Spurd, desk: AgentDesk, commons: Path) -> None:
    """A file that only root may read stays unread, though root asks."""
    folder = commons / "job"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    spurd.here("submit", "--user", str(NOBODY), "--workdir", folder, "-o", "out", "--", "true")
    desk.do("dispatch")
    (folder / "out").write_text("mine\n")
    os.chown(folder / "out", NOBODY, NOBODY)
    assert spurd("logs", "1") == (0, "mine\n", "")
    folder.chmod(0o700)
    os.chown(folder, 0, 0)
    said = spurd("logs", "1")
    assert said.code == 1
    assert_one_line(said, "Permission denied")


@pytest.mark.needs_root
def test_root_follows_over_a_restart_as_the_jobs_user(spurd: Spurd, desk: AgentDesk, commons: Path) -> None:
    """The agent was found by a file that only root may read; it is the same one still."""
    config = commons / "c.toml"
    config.write_text(f'state_dir = "{desk.folder}"\n')
    config.chmod(0o600)
    spurd.here("submit", "--user", str(NOBODY), "--workdir", commons, "-o", "out", "--", "true")
    desk.do("dispatch")
    (commons / "out").write_text("one\n")
    os.chown(commons / "out", NOBODY, NOBODY)
    with spurd.start("logs", "-f", "1", "--config", str(config)) as process:
        assert line_of(process) == "one"
        desk.stop()
        with AgentDesk(desk.folder) as again:
            again.do("end", "1.1", "exited", 0)
            assert ended(process) == (0, "", "")


@pytest.mark.needs_root
def test_the_groups_of_root_are_given_up(spurd: Spurd, desk: AgentDesk, commons: Path) -> None:
    folder = commons / "job"
    folder.mkdir(mode=0o750)
    (folder / "out").write_text("x")
    os.chown(folder / "out", NOBODY, NOBODY)
    os.chown(folder, 0, 4321)
    spurd.here("submit", "--user", str(NOBODY), "--workdir", folder, "-o", "out", "--", "true")
    desk.do("dispatch")

    def read() -> str:
        os.setgroups([4321])
        return spurd.here("logs", 1).err

    assert "Permission denied" in in_fork(read)


@pytest.mark.needs_root
def test_a_link_of_another_user_on_the_way_is_not_followed(spurd: Spurd, desk: AgentDesk, commons: Path) -> None:
    real, link = commons / "real", commons / "link"
    real.mkdir()
    (real / "out").write_text("x")

    def plant() -> None:
        link.symlink_to(real)

    in_fork(plant, uid=NOBODY)
    spurd.here("submit", "--workdir", link, "-o", "out", "--", "true")
    desk.do("dispatch")
    assert_one_line(spurd("logs", "1"), f"a symbolic link of user {NOBODY} stands on the way")


@pytest.mark.needs_root
def test_another_user_reads_nothing(spurd: Spurd, job: Path) -> None:
    job.write_text("secret")

    def read() -> list[object]:
        said = spurd.here("logs", 1)
        return [said.code, said.out, said.err]

    code, out, err = in_fork(read, uid=NOBODY)
    assert (code, out) == (1, "")
    assert "there is none, or it is another user's" in err
