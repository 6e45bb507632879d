"""The program spurd as people run it: piped, or on a terminal of 80 columns, on a service of `tests.agent_service`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from spurproc.agent.cli.main import main
from tests.inspect_program import TIMEOUT_S, Said, environment, on_terminal

PROGRAM = Path(sys.executable).parent / "spurd"


class Spurd:
    """With a state folder that it is told of by its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = environment() | {"SPURD_STATE_DIR": str(folder)}

    def __call__(
        self, *arguments: object, stdin: bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Said:
        """Run it piped."""
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env=self.env | dict(env or {}),
            cwd=cwd,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def here(self, *arguments: object) -> Said:
        """The same without a process of its own: for much that needs none."""
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main([str(arguments[0]), "--state-dir", str(self.folder), *map(str, arguments[1:])])
        return Said(int(code), out.getvalue(), err.getvalue())

    def json(self, *arguments: object) -> dict[str, Any]:
        """As `here`, with --json; the one document on standard output, held to what all documents have in common."""
        said = self.here(arguments[0], "--json", *arguments[1:])
        document: dict[str, Any] = json.loads(said.out)
        assert (document["schema_version"], document["command"]) == (1, arguments[0])
        assert document["exit_code"] == said.code
        assert ("error" in document) == bool(said.err)
        return document

    def on_terminal(self, *arguments: str, env: Mapping[str, str] | None = None) -> Said:
        """Run it on a terminal of 80 columns."""
        return on_terminal([str(PROGRAM), *arguments], env={"SPURD_STATE_DIR": str(self.folder)} | dict(env or {}))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run it beside the test; the caller owns it."""
        return subprocess.Popen(
            [PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env
        )


def line_of(process: subprocess.Popen[bytes]) -> str:
    """The next line that it says on standard output."""
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip("\n")


def ended(process: subprocess.Popen[bytes]) -> Said:
    """What else it said, once it has ended."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Said(process.returncode, out.decode(), err.decode())


def assert_one_line(said: Said, *parts: str) -> None:
    """Nothing on standard output, and one line on standard error that has all of `parts` and no control character."""
    assert said.out == ""
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("spurd: ")
    assert said.err[:-1].isprintable(), repr(said.err)
    for part in parts:
        assert part in said.err, said.err
