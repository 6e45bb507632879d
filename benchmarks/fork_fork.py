"""A daemon as Python programs start it today: fork, setsid, fork, exec. Source: daemon(7), "SysV Daemons".

With a pipe that tells of the exec, so that it promises what a spawn promises.
"""

from __future__ import annotations

import os


def start_daemon(argv: list[str]) -> None:
    """Start `argv` as a daemon and return once it has been exec'd. Raises OSError if that failed."""
    confirm_fd, confirmed_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        _detach(argv, confirmed_fd)
    os.close(confirmed_fd)
    os.waitpid(pid, 0)
    failed = os.read(confirm_fd, 1)
    os.close(confirm_fd)
    if failed:
        raise OSError(f"cannot start {argv[0]}")


def _detach(argv: list[str], confirmed_fd: int) -> None:
    """In the child: end, with a grandchild that has a session of another and becomes the program."""
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        null_fd = os.open(os.devnull, os.O_RDWR)
        for target in range(3):
            os.dup2(null_fd, target)
        os.execv(argv[0], argv)  # noqa: S606 - that is the point
    finally:
        os.write(confirmed_fd, b"!")
        os._exit(127)
