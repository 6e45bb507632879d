"""spurproc-inspect on recorded runs: how they end, or do not, and what is known of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import Containment
from tests.asleep import await_waiting
from tests.inspect_program import (
    PROGRAM,
    inspect,
    inspect_here,
    inspect_json,
    inspect_on_terminal,
    plain,
    recorded,
    words,
)

CONTAINMENTS = [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]


@pytest.mark.parametrize("command", ["exit", "wait"])
@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("exit 0", 0, "exited 0"),
        ("exit 3", 1, "exited 3"),
        ("exit 137", 1, "exited 137"),
        ("kill -9 $$", 1, "killed by SIGKILL"),
    ],
)
def test_an_end_by_the_record(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str, script: str, code: int, text: str
) -> None:
    with recorded(tmp_path / "run", "sh", "-c", script) as run:
        run.wait(10)
        document = inspect_json(command, run.folder)
        said = inspect_here(capfd, command, run.folder)
    assert document["exit_code"] == said.code == code
    assert document["state"] == "ended"
    assert document["exit"]["text"] == text
    assert document["exit"]["source"] in ("recorded", "pidfd")
    assert document["exit"]["provenance"]
    assert document["exit"]["trusted"] is False  # it ran as the user who keeps the record
    assert document["exit"]["usage"]["max_rss_bytes"] > 0
    assert document["target"] == {"kind": "run", "folder": str(tmp_path / "run")}
    assert text in said.out
    assert "not trusted: the job could have written what this rests on" in said.out


def test_an_end_that_nobody_knows(tmp_path: Path) -> None:
    """A record that may not be believed: never 0."""
    with recorded(tmp_path / "run", "true") as run:
        run.wait(10)
        assert run._held.recorder is not None
        run._held.recorder.wait(10, reap_grace_s=0)
        (tmp_path / "run" / "exit").write_bytes(b"\x1b[31mexited 0\n")
        document, said = inspect_json("exit", run.folder), inspect("exit", run.folder)
        shown = inspect("show", run.folder)
    assert document["exit_code"] == said.code == 1
    assert document["exit"]["kind"] == "unknown"
    assert "may not be believed" in document["exit"]["reason"]
    assert "unknown: the exit record may not be believed" in said.out
    assert shown.code == 0


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with recorded(tmp_path / "run", "sleep", "1000") as run:
        document = inspect_json("exit", run.folder)
        timeout = inspect_json("wait", run.folder, "--timeout", "0.05")
        said = inspect("wait", run.folder, "--timeout", "0")
        run.terminate()
    assert (document["exit_code"], document["state"], document["reason"]) == (4, "running", "it still runs")
    assert (timeout["exit_code"], timeout["state"], timeout["exit"]) == (4, "timeout", None)
    assert (said.code, said.out.count("not known")) == (4, 1)


def test_wait_sleeps_until_the_end(tmp_path: Path) -> None:
    with recorded(tmp_path / "run", "sleep", "1000") as run:
        with subprocess.Popen([PROGRAM, "wait", run.folder, "--timeout", "60"], stdout=subprocess.PIPE) as waiting:
            await_waiting(waiting.pid)
            run.signal(15)
            out, _ = waiting.communicate(timeout=60)
        assert waiting.returncode == 1
        assert b"killed by SIGTERM" in out


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_show_a_run(tmp_path: Path, containment: Containment) -> None:
    with recorded(tmp_path / "run", "sh", "-c", "sleep 1000; :", "a\x1bb\n", containment=containment) as run:
        assert run.leader is not None
        assert run.recorder is not None
        document = inspect_json("show", run.folder)
        piped, on_terminal = inspect("show", run.folder), inspect_on_terminal("show", run.folder)
        leader, recorder = run.leader, run.recorder
        run.terminate()
        ended = inspect_json("show", run.folder)
    assert document["exit_code"] == ended["exit_code"] == 0
    assert ProcessIdentity.from_json(only_identity(document["leader"])) == leader
    assert ProcessIdentity.from_json(only_identity(document["recorder"])) == recorder
    assert document["argv"] == ["sh", "-c", "sleep 1000; :", "a\x1bb\n"]
    assert document["containment"]["kind"] == containment.value
    assert document["containment"]["provenance"]
    assert (document["cgroup"] is None) == (containment is Containment.DESCENDANTS)
    assert (document["liveness"], document["state"], document["exit"]) == ("alive", "running", None)
    assert document["evidence"] in ("cgroup.events", "pidfd")
    assert leader.pid in [member["pid"] for member in document["members"]["listed"]]
    assert recorder.pid not in [member["pid"] for member in document["members"]["listed"]]
    assert (ended["liveness"], ended["state"], ended["exit"]["text"]) == ("gone", "ended", "killed by SIGTERM")
    assert ended["members"]["count"] == 0
    for said in (piped, on_terminal):
        assert words("a\\x1bb\\n") in words(said.out)
        assert "\x1bb" not in said.out
    assert f"containment  {containment.value}: " in piped.out
    assert max(map(len, plain(on_terminal.out).splitlines())) <= 80


def only_identity(form: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in form.items() if name not in ("strength", "provenance")}
