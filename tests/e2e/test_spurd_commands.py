"""Every command of spurd: what it says to people and to programs, and its exit code."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.cli.main import COMMANDS
from tests.agent_service import AgentDesk
from tests.inspect_program import COLUMNS, plain
from tests.relatives import NOBODY, in_fork
from tests.spurd_command import Spurd, assert_one_line, ended, line_of

SCRIPT = "#!/bin/sh\necho hello\n"
EVIL = "\x1b[31mred\u202e\x07"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_submitted_once_for_each_key(spurd: Spurd, script: Path) -> None:
    assert spurd("submit", "--key", "k", script, "a", "--b") == (0, "submitted job 1\n", "")
    assert spurd.here("submit", "--key", "k", script, "a", "--b") == (0, "job 1 was submitted before with this key\n", "")
    document = spurd.json("submit", "--key", "k", script, "a", "--b")
    assert (document["job_id"], document["repeated"], document["warnings"]) == (1, True, [])
    shown = spurd.json("show", 1)["program"]
    assert (shown["argv"], shown["script_bytes"]) == (["a", "--b"], len(SCRIPT))


def test_a_program_behind_dashes(spurd: Spurd, tmp_path: Path) -> None:
    assert spurd("submit", "--", "sh", "-c", "exit 3", cwd=tmp_path).code == 0
    document = spurd.json("show", 1)
    assert document["program"]["argv"] == ["sh", "-c", "exit 3"]
    assert (document["job"]["name"], document["program"]["work_dir"]) == ("sh", str(tmp_path))
    assert spurd("submit", "--name", "x", "--", "--odd", "--", "y").code == 0
    assert spurd.json("show", 2)["program"]["argv"] == ["--odd", "--", "y"]


def test_dashes_among_the_arguments_are_the_scripts(spurd: Spurd, script: Path) -> None:
    assert spurd.here("submit", script, "--", "x").code == 0
    program = spurd.json("show", 1)["program"]
    assert (program["argv"], program["script_bytes"]) == (["--", "x"], len(SCRIPT))


def test_a_script_from_standard_input_with_all_options(spurd: Spurd, desk: AgentDesk) -> None:
    options = "--name n --cpus 2 --memory 1.5G --generic licence=2 --time-limit 1:30:00 -o o.%j -e e.%j -i /dev/null"
    more = ["--workdir", "/tmp", "--export", "NONE", "--env", "A=1", "--kill-plan", "TERM:1,KILL", "--requeue"]
    assert spurd("submit", *options.split(), *more, "-", "x", stdin=SCRIPT.encode()).code == 0
    document = spurd.json("show", 1)
    wanted = {"cpus": 2, "memory_bytes": 3 << 29, "gpus": 0, "gpu_kind": None, "generic": {"licence": 2}}
    assert document["job"]["resources"] == wanted
    program = document["program"]
    assert (program["time_limit_s"], program["work_dir"], program["requeue"]) == (5400.0, "/tmp", "on-node-fault")
    desk.do("dispatch")
    [attempt] = spurd.json("show", 1)["attempts"]
    assert (attempt["stdout"], attempt["stderr"]) == ("/tmp/o.1", "/tmp/e.1")


def test_a_script_that_is_hardly_meant_is_warned_about(spurd: Spurd, script: Path) -> None:
    script.write_bytes(b"#!/bin/sh\r\necho\r\n")
    said = spurd.here("submit", script)
    assert said.out.splitlines() == [
        "submitted job 1",
        "warning: its first line ends with CR LF, so the name of its interpreter ends with a CR",
    ]
    assert len(spurd.json("submit", script)["warnings"]) == 1


def test_who_submits_to_a_drained_node_is_told_why_the_job_waits(spurd: Spurd, script: Path) -> None:
    """Once: said again with its key, it may have run since."""
    assert spurd.here("drain", "--why", "a new disk").code == 0
    said = spurd.here("submit", "--key", "k", script)
    assert (said.code, said.out.splitlines()[1:]) == (0, ["warning: it waits, for the node is drained: a new disk"])
    assert spurd.json("submit", "--key", "k", script)["warnings"] == []
    assert spurd.here("undrain").code == 0
    assert spurd.json("submit", script)["warnings"] == []


def test_output_that_is_removed_with_its_folder_is_warned_about(spurd: Spurd) -> None:
    (warning,) = spurd.json("submit", "--workdir", "", "--", "true")["warnings"]
    assert warning == "its output is removed with its scratch folder, once it has ended: an absolute path would be kept"
    assert spurd.json("submit", "--workdir", "", "-o", "/tmp/x", "--", "true")["warnings"] == []


@pytest.mark.needs_root
def test_a_job_for_what_has_vanished_is_named(desk: AgentDesk, spurd: Spurd) -> None:
    """Nothing is started before it, so whoever waits finds it here; whose it is, only those who may see it."""

    def seen_by_another() -> list[str]:
        with AgentClient.connect(desk.folder / "control.sock") as client:
            return list(client.status().problems)

    before = spurd.json("status")["problems"]
    spurd.json("submit", "--cpus", "4", "--", "true")
    assert spurd.json("status")["problems"] == before
    desk.do("shrink", 2)
    why = "is the next in the queue, and the node has not got what it wants by now: CPUs: 4 wanted, 2 there"
    assert spurd.json("status")["problems"] == [*before, f"job 1 {why}"]
    assert in_fork(seen_by_another, uid=NOBODY) == [f"another user's job {why}"]
    desk.do("shrink", 4)
    assert spurd.json("status")["problems"] == before


def test_who_asks_for_a_limit_is_told_where_nobody_is_held_to_it(desk: AgentDesk, spurd: Spurd, script: Path) -> None:
    """And nobody else is."""
    desk.do("enforce_not", "memory", "no memory controller")
    desk.do("enforce_not", "pids", "no pids controller")
    desk.do("enforce_not", "cpu", "no cpu controller")
    assert spurd.json("submit", script)["warnings"] == []
    assert spurd.json("submit", "--memory", "1M", script)["warnings"] == ["no memory controller"]
    assert spurd.here("submit", "--memory", "1M", script).out.splitlines()[1:] == ["warning: no memory controller"]
    assert spurd.json("submit", "--pids", "5", script)["warnings"] == ["no pids controller"]


def test_a_job_comes_before_its_node_is_registered(commons: Path) -> None:
    """As of who submits right after a restart: it is no reason to be sent away."""
    with AgentDesk(commons / "new", unregistered=True) as desk, Spurd(desk.folder).start("submit", "--", "true") as process:
        assert desk.line() == "waits"
        desk.do("register")
        assert ended(process) == (0, "submitted job 1\n", "")


def test_jobs(spurd: Spurd, desk: AgentDesk) -> None:
    assert spurd.here("jobs") == (0, "no jobs that have not ended\n", "")
    assert spurd.here("jobs", "-a") == (0, "no jobs\n", "")
    for name in ("first", "second", "third"):
        spurd.here("submit", "--name", name, "--cpus", 2, "--", "true")
    desk.run("exited", 3)
    desk.do("dispatch")
    user = pwd.getpwuid(os.geteuid()).pw_name
    rows = [line.split() for line in spurd.here("jobs").out.splitlines()]
    assert [row[:5] for row in rows] == [
        ["JOB", "NAME", "USER", "STATE", "RESOURCES"],
        ["3.1", "third", user, "queued", "2"],
        ["2.1", "second", user, "running", "2"],
    ]
    assert "exited 3" in spurd.here("jobs", "-a").out
    document = spurd.json("jobs", "-a", "--limit", 2)
    assert ([job["job_id"] for job in document["jobs"]], document["more"]) == ([3, 2], True)
    assert "and more; --limit 4 lists more" in spurd.here("jobs", "-a", "--limit", 2).out
    assert spurd.json("jobs", "--user", os.geteuid())["more"] is False


def test_show_tells_what_it_has_and_how_it_ended(spurd: Spurd, desk: AgentDesk, tmp_path: Path) -> None:
    spurd("submit", "--", "true", "a b", cwd=tmp_path)
    assert "command    true 'a b'\n" in spurd.here("show", 1).out
    desk.do("dispatch")
    said = spurd.here("show", "1").out
    assert "attempt 1\n" in said
    assert "has         CPU 1-2\n" in said
    assert f"output      {tmp_path}/job-1.1.out\n" in said
    spurd.here("cancel", 1, "--why", "no use")
    desk.do("end", "1.1", "signaled", 9)
    said = spurd.here("show", "1.1").out
    assert "no use" in said
    assert "exit        killed by SIGKILL\n" in said
    [attempt] = spurd.json("show", 1)["attempts"]
    assert attempt["exit"]["signal"] == 9
    assert (attempt["cancelled"], attempt["cancelled_by"]) == (True, os.geteuid())


def test_acts(spurd: Spurd, desk: AgentDesk) -> None:
    spurd.here("submit", "--", "true")
    assert assert_refused(spurd, "requeue", 1) == 6
    desk.do("dispatch")
    assert spurd.here("suspend", 1) == (0, "job 1.1 stands still\n", "")
    assert spurd.here("resume", "1.1") == (0, "job 1.1 goes on\n", "")
    assert assert_refused(spurd, "suspend", "1.2") == 1
    assert spurd.here("cancel", 1) == (0, "job 1.1 is being ended\n", "")
    assert spurd.here("requeue", 1) == (0, "attempt 1.2 comes once the one before has ended\n", "")
    desk.do("end", "1.1", "signaled", 15)
    assert spurd.here("cancel", 1) == (0, "job 1.2 is ended, and never ran\n", "")
    assert spurd.here("cancel", 1) == (0, "job 1.2 had ended before\n", "")
    assert spurd.json("cancel", 1)["answer"] == "over"
    assert spurd.here("requeue", 1) == (0, "attempt 1.3 is in the queue\n", "")


def assert_refused(spurd: Spurd, *arguments: object) -> int:
    said = spurd.here(*arguments)
    assert_one_line(said)
    assert spurd.json(*arguments)["error"]["message"] in said.err
    return said.code


def test_the_node(spurd: Spurd) -> None:
    said = spurd.here("status")
    assert said.code == 0
    assert "state    takes jobs\n" in said.out
    assert "has      CPU 0-3, 8 GiB, 2 licence\n" in said.out
    assert spurd.here("drain", "--why", "disk") == (0, "the node is drained\n", "")
    assert spurd.here("drain") == (0, "the node was drained already\n", "")
    assert "state    drained: it starts nothing new\n" in spurd.here("status").out
    assert spurd.json("undrain")["changed"] is True
    assert spurd.here("undrain") == (0, "the node was not drained by hand\n", "")
    assert spurd.json("status")["totals"]["generic"] == {"licence": 2}


def test_alloc_for_a_time(spurd: Spurd, desk: AgentDesk) -> None:
    assert spurd.here("alloc", "--for", "0.1") == (0, "has         CPU 0\nlimit       0.1 s\nSPURD_CPUS  0\n", "")
    assert desk.line() == "released"
    first, last = map(json.loads, spurd.here("alloc", "--for", "0.1", "--json").out.splitlines())
    assert (first["event"], first["env"], last["event"]) == ("reserved", {"SPURD_CPUS": "0"}, "released")
    assert desk.line() == "released"


def test_the_nodes_time_limit_is_one_of_reservations_too(spurd: Spurd, desk: AgentDesk) -> None:
    desk.do("limit_time", 0.2)
    assert spurd.here("alloc") == (0, "has         CPU 0\nlimit       0.2 s\nSPURD_CPUS  0\n", "")
    assert desk.line() == "released"
    assert json.loads(spurd.here("alloc", "--for", "0.1", "--json").out.splitlines()[0])["for_s"] == 0.1
    assert desk.line() == "released"


@pytest.mark.parametrize(("number", "code"), [(2, 0), (9, -9), (15, -15)])
def test_alloc_until_it_ends_however_it_does(spurd: Spurd, desk: AgentDesk, number: int, code: int) -> None:
    with spurd.start("alloc") as process:
        assert line_of(process) == "has         CPU 0"
        assert assert_refused(spurd, "alloc") == 6
        process.send_signal(number)
        assert desk.line() == "released"
        said = ended(process)
    assert (said.code, said.err) == (code, "")


def test_names_from_outside_reach_no_terminal(spurd: Spurd, desk: AgentDesk) -> None:
    spurd.here("submit", "--", f"/{EVIL}", EVIL)
    desk.do("dispatch")
    spurd.here("cancel", 1, "--why", EVIL)
    spurd.here("drain", "--why", EVIL)
    for arguments in (["jobs"], ["show", "1"], ["status"]):
        for said in (spurd.here(*arguments), spurd.on_terminal(*arguments)):
            assert said.code == 0
            text = plain(said.out).replace("\n", "")
            assert text.isprintable(), repr(text)


@pytest.mark.parametrize("command", ["jobs", "status", "show"])
def test_a_terminal_of_80_columns(spurd: Spurd, command: str) -> None:
    spurd.here("submit", "--name", "n" * 100, "--", "true", "x" * 100)
    arguments = [command, "1"] if command == "show" else [command]
    said = spurd.on_terminal(*arguments)
    assert max(map(len, plain(said.out).splitlines())) <= COLUMNS
    if command != "status":
        assert "".join(plain(said.out).split()).count("n") >= 100  # folded, and nothing left out
    assert "\x1b[" in spurd.on_terminal("status").out
    assert "\x1b[" not in spurd.on_terminal("status", env={"NO_COLOR": "1"}).out.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_help_lists_every_command_and_the_exit_codes(spurd: Spurd) -> None:
    said = spurd.on_terminal("--help")
    for name in COMMANDS:
        assert f"\n  {name} " in said.out
        assert max(map(len, spurd.here(name, "--help").out.splitlines())) <= COLUMNS
    assert "125 if its end is not known" in said.out
    assert "..." not in said.out.partition("Commands:")[2]
    assert max(map(len, said.out.splitlines())) <= COLUMNS
