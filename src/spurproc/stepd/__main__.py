"""`spurstepd --state-dir DIR`: the host of a state folder. Started by the client when a step is launched."""

from __future__ import annotations

import argparse
import os
import resource
import sys

import prctl

from spurproc.core.durable.lock import FolderLock
from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import reader
from spurproc.core.spawn.program import program_fd
from spurproc.errors import SpurprocError
from spurproc.proto.host_folder import open_host_folder
from spurproc.proto.step_folder import StateFolder
from spurproc.stepd.host import Host
from spurproc.stepd.oom_score import protect
from spurproc.version import VERSION

__all__ = ["run"]

_ANOTHER_SERVES = 0
_FAILED = 1
_IDLE_S = 10.0


def run() -> int:
    """Serve until nobody needs it. Exit code 0, also where another host of this release serves the folder; 1: it cannot."""
    arguments = _parsed()
    prctl.set_name("spurstepd")
    prctl.set_proctitle(f"spurstepd: {arguments.state_dir}")
    try:
        with StateFolder.open(arguments.state_dir, inode=arguments.folder_inode) as state, open_host_folder(state) as folder:
            lock = FolderLock.take(folder, create=True)
            if lock is None:
                return _ANOTHER_SERVES
            with lock:
                _serve(Host(state, folder, arguments.idle_s), arguments.ready_fd)
    except SpurprocError as error:
        os.write(2, f"spurstepd: {error}\n".encode())
        return _FAILED
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spurstepd", description="The host of a state folder's step supervisors.")
    parser.add_argument("--state-dir", required=True, help="the state folder; it has to exist")
    parser.add_argument("--folder-inode", type=_inode, metavar="DEV:INO", help="serve only if it is the folder that is there")
    parser.add_argument("--ready-fd", type=int, default=-1, help="a descriptor that gets one byte once the host can be reached")
    parser.add_argument("--idle-s", type=float, default=_IDLE_S, help="seconds without steps and peers after which it ends")
    parser.add_argument("--version", action="version", version=VERSION)
    return parser.parse_args()


def _inode(text: str) -> tuple[int, int]:
    device, _, inode = text.partition(":")
    return int(device), int(inode)


def _serve(host: Host, ready_fd: int) -> None:
    prctl.set_child_subreaper(1)
    protect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # What every supervisor needs is looked up, loaded and opened here once: a fork shares it.
    Facilities.current()
    reader()
    program_fd()
    host.listen()
    if ready_fd >= 0:
        os.write(ready_fd, b"\0")
        os.close(ready_fd)
    host.run()


if __name__ == "__main__":
    sys.exit(run())
