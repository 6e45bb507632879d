"""Hosts for the matrix, quickly: forked from a process that has loaded `spurproc.stepd`, in place of the program asked for.

The program that the client starts (SPURPROC_STEPD) is a shell that passes on its number and arguments, and ends when it is told
that a host has taken its place: in its cgroup, with its end of the ready pipe, detached, and with nothing of anybody else's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from spurproc.stepd import __main__ as program
from tests.crash.points import install_stepd

_SCRIPT = """#!/bin/sh
mkfifo '{folder}'/answer.$$
exec 9<> '{folder}'/answer.$$
rm '{folder}'/answer.$$
echo "$$ $*" > '{folder}/ask'
read answer <&9
"""


def write_program(folder: Path) -> Path:
    """The stand-in for spurstepd, and the pipes between it and the zygote."""
    os.mkfifo(folder / "ask", 0o600)
    path = folder / "spurstepd"
    path.write_text(_SCRIPT.format(folder=folder), encoding="utf-8")
    path.chmod(0o755)
    return path


def serve(folder: Path) -> None:
    """One host after the other, until nobody is left who could ask."""
    install_stepd()
    with open(folder / "ask", encoding="utf-8") as asked:
        print("ready", flush=True)
        for line in asked:
            pid, *arguments = line.split()
            child = os.fork()
            if child == 0:
                _become_host(int(pid), arguments, asked.fileno())
            os.waitpid(child, 0)


def _become_host(stand_in: int, arguments: list[str], ours: int) -> None:
    """Forked once more, so that it is nobody's child, as what was asked for would be."""
    status = 1
    try:
        ready = arguments.index("--ready-fd") + 1
        ready_fd = os.open(f"/proc/{stand_in}/fd/{arguments[ready]}", os.O_WRONLY | os.O_CLOEXEC)
        answer_fd = os.open(f"/proc/{stand_in}/fd/9", os.O_WRONLY | os.O_CLOEXEC)
        cgroups = Path(f"/proc/{stand_in}/cgroup").read_text(encoding="utf-8")
        os.write(answer_fd, b"done\n")
        os.close(answer_fd)
        if os.fork() != 0:
            os._exit(0)
        os.setsid()
        os.chdir("/")
        _join(next(line[3:] for line in cgroups.splitlines() if line.startswith("0::")))
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        os.dup2(null, 1)
        os.close(null)
        os.close(ours)
        arguments[ready] = str(ready_fd)
        sys.argv = ["spurstepd", *arguments]
        status = program.run()
    except FileNotFoundError:
        pass  # who asked has been killed
    finally:
        os._exit(status)


def _join(path: str) -> None:
    mount = os.environ["SPURPROC_TEST_CGROUP_MOUNT"]
    Path(mount + path, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
