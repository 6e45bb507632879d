"""`spurproc-inspect ls | show | events | logs | fsck` over the state folder of real steps."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.client.adoption import adopt
from spurproc.core.durable.journal import JOURNAL_NAME
from spurproc.core.durable.lock import FolderLock
from spurproc.core.tree.termination import KillPlan
from spurproc.inspect.steps.findings import Finding, find_all, what_comes
from spurproc.proto.launch_record import LAUNCH_NAME, Hook
from spurproc.proto.step_folder import StateFolder
from spurproc.proto.takeover import NotYours
from tests.asleep import await_sleep
from tests.fifo import Told
from tests.inspect_program import COLUMNS, assert_one_line, inspect, inspect_json
from tests.steps import WAIT_S, Gate, Steps


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below, whole; None for what is none."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def mixed(steps: Steps, tmp_path: Path) -> Steps:
    """One that has succeeded, one that has failed, one that runs."""
    steps.launch(["sh", "-c", "echo out; echo err >&2"], stdout=tmp_path / "out", stderr=tmp_path / "err").wait(WAIT_S)
    steps.launch(["sh", "-c", "exit 3"]).wait(WAIT_S, completed=True)
    steps.launch(["cat", "/dev/zero"])
    return steps


def test_ls_lists_each_step(mixed: Steps) -> None:
    said = inspect("ls", mixed.path)
    assert said.code == 0
    heading, *rows = said.out.splitlines()
    assert heading.split() == ["STEP", "STATE", "TREE", "END", "SOURCE", "OWED"]
    assert [row.split()[0] for row in rows] == ["1.1.0", "2.1.0", "3.1.0"]
    assert "exited 3" in rows[1]
    assert rows[2].split()[1:3] == ["running", "alive"]
    assert max(map(len, said.out.splitlines())) <= COLUMNS
    listed = inspect_json("ls", mixed.path)["steps"]
    assert isinstance(listed, list)
    assert [(one["step"], one["liveness"], (one["end"] or {}).get("code")) for one in listed] == [
        ("1.1.0", "gone", 0),
        ("2.1.0", "gone", 3),
        ("3.1.0", "alive", None),
    ]


def test_show_tells_who_keeps_a_step(mixed: Steps) -> None:
    descriptor = mixed.descriptor_of(3, 1, 0)
    assert descriptor.leader is not None
    told = inspect_json("show", mixed.path / "runtime" / "3.1.0")
    assert told["argv"] == ["cat", "/dev/zero"]
    assert (told["state"], told["supervised"], told["exit"]) == ("running", True, None)
    for name in ("leader", "supervisor", "host"):
        shown = told[name]
        assert isinstance(shown, dict)
        assert shown["pid"] == getattr(descriptor, name).pid
    assert "cat /dev/zero" in inspect("show", mixed.path / "runtime" / "3.1.0").out


def test_events_are_those_of_the_journal(mixed: Steps) -> None:
    lines = [json.loads(line) for line in inspect("events", mixed.path, "2.1.0", "--json").out.splitlines()]
    assert [line["event"] for line in lines] == ["gate_opening", "launched", "exit_observed", "emptied"]
    assert lines[2]["end"]["code"] == 3
    assert "exit_observed: exited 3 (waited)" in inspect("events", mixed.path, "2.1.0").out


def test_logs_are_the_bytes_of_the_job(mixed: Steps) -> None:
    assert inspect("logs", mixed.path, "1.1.0").out == "out\n"
    assert inspect("logs", mixed.path, "1.1.0", "--stderr").out == "err\n"
    refused = inspect("logs", mixed.path, "2.1.0")
    assert (refused.code, refused.out) == (1, "")
    assert "null device" in refused.err


def test_fsck_finds_nothing_in_what_runs_and_what_is_owed_in_what_is_over(mixed: Steps) -> None:
    said = inspect("fsck", mixed.path)
    assert said.code == 0
    assert "3.1.0" not in said.out
    assert "nobody has acknowledged its end" in said.out


def test_fsck_names_each_inconsistency_and_changes_nothing(mixed: Steps) -> None:
    """Whole kinds: unreadable, half, torn, unknown to us, out of order, of a launch that was killed."""
    runtime = mixed.path / "runtime"
    for step in adopt(mixed.path).steps[:2]:
        step.wait(WAIT_S, completed=True)
        supervisor = mixed.descriptor(step).supervisor
        step.acknowledge()
        mixed.await_gone(supervisor)  # and its host has looked what is owed, before it is changed
    (runtime / "1.1.0" / JOURNAL_NAME).write_bytes((runtime / "1.1.0" / JOURNAL_NAME).read_bytes() + b'{"event":"la')
    journal = (runtime / "2.1.0" / JOURNAL_NAME).read_bytes()
    (runtime / "2.1.0" / JOURNAL_NAME).write_bytes(b"\n".join(journal.split(b"\n")[1:]))
    for name in (".new-9.1.0-aa", "x", "4.1.0", "5.1.0", "6.1.0"):
        (runtime / name).mkdir(mode=0o700)
    (runtime / ".new-9.1.0-aa" / "lock").touch(mode=0o600)
    launch = json.loads((runtime / "2.1.0" / LAUNCH_NAME).read_bytes())
    for name, change in (("5.1.0", {"v": 99}), ("6.1.0", {"program": 7})):
        (runtime / name / "lock").touch(mode=0o600)
        (runtime / name / JOURNAL_NAME).touch(mode=0o600)
        (runtime / name / LAUNCH_NAME).write_text(json.dumps(launch | change), encoding="utf-8")
    before = contents(runtime)
    told = inspect_json("fsck", mixed.path)
    assert told["exit_code"] == 1
    findings = told["findings"]
    assert isinstance(findings, list)
    found = {(one["name"], one["weight"], one["what"]) for one in findings}
    assert ("1.1.0", "owed", "the last line of its journal is torn") in found
    assert ("2.1.0", "fault", "it is recorded as launched, and its gate was never opened") in found
    assert (".new-9.1.0-aa", "left behind", "a launch that was killed before it was published") in found
    assert ("x", "fault", "no step has such a name") in found
    assert {one["name"] for one in findings if one["weight"] == "fault"} == {"2.1.0", "x", "4.1.0", "5.1.0", "6.1.0"}
    assert any("its version is 99" in one["what"] for one in findings)
    assert all(one["remedy"] for one in findings)
    assert contents(runtime) == before
    for name in ("x", "4.1.0", "5.1.0", "6.1.0"):
        for path in (runtime / name).iterdir():
            path.unlink()
        (runtime / name).rmdir()


def test_fsck_says_what_a_lost_supervisor_comes_to(steps: Steps) -> None:
    step = steps.launch(["cat", "/dev/zero"])
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.host, descriptor.supervisor)
    findings = inspect_json("fsck", steps.path)["findings"]
    assert isinstance(findings, list)
    (found,) = findings
    assert (found["name"], found["weight"]) == (str(step.runtime_id), "owed")
    assert found["what"] == "nobody supervises it, and its end is not recorded"
    assert found["remedy"].startswith("its leader lives")


def test_fsck_takes_who_looks_for_no_supervisor(steps: Steps) -> None:
    """Another fsck, say: it has the lock for the moment of its look, and is waited for where the supervisor is gone."""
    step = steps.launch(["cat", "/dev/zero"])
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.host, descriptor.supervisor)
    found: list[Finding] = []
    looker = threading.Thread(target=lambda: found.extend(find_all(str(steps.path))))
    with StateFolder.open(steps.path) as state, state.open_step(step.runtime_id) as folder:
        other = FolderLock.take(folder.folder)
        assert other is not None
        with other:
            looker.start()
            assert looker.native_id is not None
            await_sleep(looker.native_id, "poll")
        looker.join()
    assert [one.what for one in found] == ["nobody supervises it, and its end is not recorded"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (0, "its end: not started: ended before exec at stage GATE; its supervisor ended before it opened the gate"),
        (1, "its end: unknown: its supervisor and host ended before it was known whether the leader was exec'd"),
        (2, "its end: unknown: its supervisor and host ended before the leader did"),
    ],
)
def test_fsck_tells_the_end_that_a_host_will_record(steps: Steps, lines: int, told: str) -> None:
    """By how far its journal had come when all of them died; and that is what is recorded then."""
    step = steps.launch(["sleep", "1000"])
    descriptor = steps.descriptor(step)
    assert descriptor.leader is not None
    steps.kill(descriptor.host, descriptor.supervisor, descriptor.leader)
    journal = steps.folder(step) / JOURNAL_NAME
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))
    (found,) = inspect_json("fsck", steps.path)["findings"]
    assert told in found["remedy"]
    end = step.wait(WAIT_S)
    assert str(end) in found["remedy"]
    assert (end.reason or "") in found["remedy"]


@pytest.mark.parametrize("found", NotYours)
def test_what_is_not_concluded_yet_is_told_apart(found: NotYours) -> None:
    told = {
        NotYours.HOST_LIVES: "the host that",
        NotYours.LEADER_LIVES: "its leader lives:",
        NotYours.UNSEEN: "whether its leader lives",
    }
    assert what_comes(found).startswith(told[found])


def test_ls_says_what_is_owed_next(steps: Steps, tmp_path: Path, told: Callable[[str], Told]) -> None:
    """The end, the rest of the tree, the epilog, the report, nothing: each while that is what comes next."""
    gate, epilog = Gate(tmp_path / "gate"), Gate(tmp_path / "epilog")
    say = told("say")
    plan = KillPlan(steps=((signal.SIGWINCH, WAIT_S), (9, None)))
    hook = Hook(argv=("sh", "-c", f"exec 3>{say.path}; echo up >&3; read x <{epilog.path}"), timeout_s=WAIT_S)
    step = steps.launch(["sh", "-c", f"sleep 1000 & read x <{gate.path}; exit 0"], epilog=hook, kill_plan=plan)
    assert owed(steps) == "its end"
    gate.open()
    step.wait(WAIT_S)
    assert owed(steps) == "its tree"
    step.signal(signal.SIGKILL)
    assert say.line() == "up"
    assert owed(steps) == "its epilog"
    epilog.open()
    step.wait(WAIT_S, completed=True)
    assert owed(steps) == "its report"
    step.acknowledge()
    assert owed(steps) == "nothing"


def owed(steps: Steps) -> str:
    """Of the one step, in both ways of output."""
    (listed,) = inspect_json("ls", steps.path)["steps"]
    said: str = listed["owed"]
    assert inspect("ls", steps.path).out.splitlines()[1].endswith(said)
    return said


@pytest.mark.parametrize("command", [["ls"], ["fsck"], ["events", "7.1.0"], ["logs", "7.1.0"]])
def test_a_state_folder_that_is_none_is_named_in_one_line(tmp_path: Path, command: list[str]) -> None:
    name, *step = command
    said = inspect(name, tmp_path / "none", *step)
    assert (said.code, said.out) == (1, "")
    assert_one_line(said, str(tmp_path / "none"))


@pytest.mark.parametrize("step", ["7", "7.0.1", "7.1.x", ""])
def test_an_id_that_is_none_is_named_in_one_line(tmp_path: Path, step: str) -> None:
    said = inspect("events", tmp_path, step)
    assert (said.code, said.out) == (2, "")
    assert_one_line(said, "cannot read the step id")
