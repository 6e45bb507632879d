"""What a reader has open while reading a page: a shell, a Python, a folder."""

from __future__ import annotations

import doctest
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.docs.page import Block, Command, commands

__all__ = ["Mistake", "Session", "Shell"]

_OPTIONS = doctest.ELLIPSIS
_SHELL = ["bash", "--noprofile", "--norc"]
# A shell in the cgroup $0, which is the top of a cgroup2 mount of its own, as in a container.
_JOIN = """echo $$ >"$0/cgroup.procs" && exec unshare --cgroup --mount sh -c "$1" """
_MOUNT = f"umount -R -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec {' '.join(_SHELL)}"
# Another user may read where the package under test lies, which can be below root's home.
_SETPRIV = """#!/bin/sh
exec /usr/bin/setpriv --inh-caps=+dac_read_search --ambient-caps=+dac_read_search "$@"
"""
_MARK = "end-of-command"
_TIMEOUT_S = 60.0
_NOTICE = re.compile(r"^bash: line \d+: +\d+ (Killed|Terminated)\b.*$", re.MULTILINE)


class Mistake(AssertionError):
    """A block of a page that does not do what the page says."""


class Shell:
    """One bash that is given command after command, as one types them."""

    def __init__(self, folder: Path, cgroup: Path | None = None) -> None:
        """In `folder`; with `cgroup`, in a cgroup namespace of which that is the top."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
        if cgroup is not None:
            env.pop("SPURPROC_CGROUP_ROOT", None)
            env["PATH"] = f"{_programs(folder)}:{path}"
        self._process = subprocess.Popen(
            _SHELL if cgroup is None else ["sh", "-c", _JOIN, cgroup, _MOUNT],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )

    def run(self, text: str) -> tuple[str, int]:
        """What one command prints, and its status."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{{ {text}\n}} </dev/null\necho {_MARK} $?\n".encode())
        output = self._until(re.compile(rf"^{_MARK} (\d+)\n", re.MULTILINE))
        end = output.rindex(_MARK)
        # An interactive shell says no more than the word.
        return _NOTICE.sub(r"\1", output[:end]), int(output[end:].split()[1])

    def _until(self, mark: re.Pattern[str]) -> str:
        assert self._process.stdout is not None
        said, deadline = b"", time.monotonic() + _TIMEOUT_S
        while not mark.search(said.decode(errors="replace")):
            readable, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 65536) if readable else b""
            if not more:
                raise Mistake(f"the shell has ended, or hangs, after: {said.decode(errors='replace')}")
            said += more
        return said.decode(errors="replace")

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _programs(folder: Path) -> Path:
    """A folder of programs that stand in for those of the same name."""
    programs = folder / ".programs"
    programs.mkdir()
    (programs / "setpriv").write_text(_SETPRIV)
    (programs / "setpriv").chmod(0o755)
    return programs


class Session:
    """The state in which the blocks of one page run, in the current folder. Close it."""

    def __init__(self, clone: Path, cgroup: Path | None = None) -> None:
        """`clone`: the repository, where a page says so. `cgroup`: for the shell, see there."""
        self._clone = clone
        self._cgroup = cgroup
        self._shell: Shell | None = None
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def do(self, block: Block) -> None:
        """Run one block. Raises Mistake where it fails, or shows something else than it does."""
        if block.caption is not None:
            self._write(block)
        elif block.language == "console":
            self._type(block)
        elif block.language == "pycon":
            self._talk(block)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), self._names)
        else:
            raise Mistake(f"{block}: nobody knows how to run {block.language!r}; say `% not run: REASON` before it")

    def _write(self, block: Block) -> None:
        path = Path(str(block.caption))
        path.write_text(block.text, encoding="utf-8")
        if block.text.startswith("#!"):
            path.chmod(0o755)
        if block.language == "python":
            compile(block.text, str(block), "exec")

    def _type(self, block: Block) -> None:
        if block.mark == "in the clone":
            shell = Shell(self._clone)
            try:
                self._type_in(shell, block)
            finally:
                shell.close()
            return
        self._shell = self._shell or Shell(Path.cwd(), self._cgroup)
        self._type_in(self._shell, block)

    def _type_in(self, shell: Shell, block: Block) -> None:
        for command in commands(block):
            output, status = shell.run(command.text)
            if status != 0 or not _matches(command, output):
                raise Mistake(
                    f"{block.page}:{command.line}: $ {command.text}\nshown:\n{command.shown}\ngot ({status}):\n{output}"
                )

    def _talk(self, block: Block) -> None:
        dialogue = doctest.DocTestParser().get_doctest(block.text, {}, str(block), str(block.page), block.line - 1)
        dialogue.globs = self._names
        said: list[str] = []
        results = doctest.DocTestRunner(optionflags=_OPTIONS, verbose=False).run(dialogue, out=said.append, clear_globs=False)
        if results.failed:
            raise Mistake("".join(said))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shell is not None:
            self._shell.close()
        self._names.clear()


def _matches(command: Command, output: str) -> bool:
    return doctest.OutputChecker().check_output(command.shown, output, _OPTIONS)
