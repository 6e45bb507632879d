"""The program spurproc-inspect as people run it: piped, or on a terminal of 80 columns; and runs for it to look at."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from spurproc.inspect.main import COMMANDS, main
from tests.relatives import in_fork

PROGRAM = Path(sys.executable).parent / "spurproc-inspect"
COLUMNS = 80
TIMEOUT_S = 300.0
"""Nothing waits so long but on an emulated machine, where a start of the program alone takes most of a minute."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Said(NamedTuple):
    """What one call said."""

    code: int
    out: str
    err: str


def environment() -> dict[str, str]:
    """Ours, as the harness has made it; but Python's own buffer is a part of what is tested."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def inspect(*arguments: str | int | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Said:
    """Run it piped."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment() | dict(env or {}),
        cwd=cwd,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def inspect_here(capture: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """The same without a process of its own: for many inputs that need none."""
    capture.readouterr()
    code = main(arguments)
    return Said(int(code), *capture.readouterr())


def inspect_as(uid: int, *arguments: str) -> dict[str, Any]:
    """The document of a forked child that has become that user: what can be imported as root is there already."""
    for module in COMMANDS.values():
        import_module(f"spurproc.inspect.{module}")
    version("spurproc")

    def answer() -> Any:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
            code = main([*arguments, "--json"])
        document = json.loads(out.getvalue())
        assert document["exit_code"] == code
        return document

    document: dict[str, Any] = in_fork(answer, uid=uid)
    return document


def inspect_json(*arguments: str | int | Path, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run it with --json; the one document on standard output, held to what all documents have in common."""
    said = inspect(*arguments, "--json", env=env)
    document: dict[str, Any] = json.loads(said.out)
    assert document["schema_version"] == 1
    assert document["command"] == arguments[0]
    assert document["exit_code"] == said.code
    assert ("error" in document) == bool(said.err)
    return document


def inspect_on_terminal(*arguments: str, env: Mapping[str, str] | None = None) -> Said:
    """Run it on a terminal of 80 columns; `out` is all that it wrote there, lines ended by newlines alone."""
    return on_terminal([str(PROGRAM), *arguments], env=env)


def on_terminal(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Said:
    """The same for any program."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=kept | {"TERM": "xterm"} | dict(env or {}),
    ) as process:
        os.close(slave)
        written = b"".join(_read_to_end(master))
        code = process.wait(TIMEOUT_S)
    os.close(master)
    return Said(code, written.decode().replace("\r\n", "\n"), "")


def _read_to_end(master: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # nobody has the other side open any more
                return
            raise
        if not chunk:
            return
        yield chunk


def plain(text: str) -> str:
    """Without colours."""
    return _ANSI.sub("", text)


def words(text: str) -> str:
    """Without the breaks that the width of a terminal brings, wherever they fall."""
    return "".join(plain(text).split())


def assert_one_line(said: Said, *parts: str) -> None:
    """Nothing on standard output, and one line on standard error that has all of `parts` and no control character."""
    assert said.out == ""
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("spurproc-inspect: ")
    assert said.err[:-1].isprintable(), repr(said.err)
    for part in parts:
        assert part in said.err


@contextmanager
def recorded(folder: Path, *argv: str, containment: Containment | None = None) -> Iterator[RecordedRun]:
    """A recorded run; ended and removed afterwards, where the test has not done so."""
    run = launch_recorded(SpawnPlan(argv=list(argv)), folder, containment=containment)
    try:
        yield run
    finally:
        run.terminate(KillPlan(steps=((9, None),)))
        run.wait(10)
        run.remove(10)
        run.close()
