"""Peers that keep one process a job, with the same job: Debian's s6-supervise, and conmon with runc."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from benchmarks.stamped import StampedJob
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.watch import FolderWatch, Watch, wait_end, wait_for
from spurproc.errors import SpurprocError

S6, CONMON = "s6-supervise", "conmon with runc"
_ENDED_WITHIN_S = 20.0
_BUNDLE = {
    "ociVersion": "1.0.2",
    "process": {"user": {"uid": 0, "gid": 0}, "args": ["/run", "/"], "cwd": "/", "env": ["LANG=C"]},
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"namespaces": [{"type": "mount"}]},
}


class Supervised(Protocol):
    """A job under a peer: it was started at `begun_ns`, and its supervisor is `pid`."""

    job: StampedJob
    begun_ns: int
    pid: int

    def recorded_ns(self) -> int:
        """Let the job end; when its end stood in the peer's own file, as one sees it who watches that folder."""
        ...

    def end(self) -> None:
        """Nothing of it is left."""
        ...


def lacking(peer: str) -> str:
    """Why it cannot be compared with here; empty where it can."""
    needed = {S6: ["s6-supervise"], CONMON: ["conmon", "runc"]}[peer]
    missing = [command for command in needed if shutil.which(command) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    return "runc needs root" if peer == CONMON and os.geteuid() != 0 else ""


class S6Supervised:
    """A service folder is the job's own, and `run` in it the job itself."""

    def __init__(self, folder: Path) -> None:
        self.job = StampedJob(folder)
        self.begun_ns = time.monotonic_ns()
        self._process = subprocess.Popen(["s6-supervise", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self._process.pid

    def recorded_ns(self) -> int:
        """`supervise/status`."""
        return _recorded_ns(self.job, self.job.folder / "supervise" / "status")

    def end(self) -> None:
        """It ends its job and itself."""
        self._process.terminate()
        self._process.wait()
        self.job.remove()


class ConmonSupervised:
    """Created and started as a container engine does; the container has the job's folder for its root, and nothing else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._name = f"spurproc-bench-{os.getpid()}-{folder.name}"
        self.job = StampedJob(folder / "rootfs")
        (folder / "rootfs" / "proc").mkdir()
        for name in ("exits", "sockets"):
            (folder / name).mkdir()
        (folder / "config.json").write_text(json.dumps(_BUNDLE), encoding="ascii")
        self.begun_ns = time.monotonic_ns()
        self._create()
        subprocess.run(["runc", "start", self._name], check=True)
        self.pid = int((folder / "conmon.pid").read_text(encoding="ascii"))

    def _create(self) -> None:
        """Until conmon says over its pipe that the container was made."""
        made, says = os.pipe()
        of_folder = {"-b": "", "-p": "job.pid", "-P": "conmon.pid", "--exit-dir": "exits", "--socket-dir-path": "sockets"}
        command = ["conmon", "--api-version", "1", "-c", self._name, "-u", self._name, "-n", self._name]
        command += ["-r", shutil.which("runc") or "runc", "-l", f"k8s-file:{self._folder / 'log'}"]
        command += [word for option, name in of_folder.items() for word in (option, str(self._folder / name))]
        with os.fdopen(made, "rb") as pipe:
            try:
                environment = os.environ | {"_OCI_SYNCPIPE": str(says)}
                subprocess.run(command, check=True, pass_fds=[says], env=environment)
            finally:
                os.close(says)
            said = json.loads(pipe.readline())
        if said.get("pid", said.get("data", -1)) < 0:
            raise RuntimeError(f"conmon cannot make a container: {said}")

    def recorded_ns(self) -> int:
        """The file that it leaves in --exit-dir."""
        return _recorded_ns(self.job, self._folder / "exits" / self._name)

    def end(self) -> None:
        """Its job and the container's own records go."""
        subprocess.run(["runc", "delete", "--force", self._name], check=False, stderr=subprocess.DEVNULL)
        with suppress(SpurprocError), Pidfd.open(self.pid) as conmon:
            wait_end(conmon, _ENDED_WITHIN_S)
        shutil.rmtree(self._folder)


PEERS: dict[str, Callable[[Path], Supervised]] = {S6: S6Supervised, CONMON: ConmonSupervised}


def _recorded_ns(job: StampedJob, record: Path) -> int:
    """Let the job end, and wait until there is another file `record` than before: each is put there by a rename."""
    job.begun_ns()
    folder_fd = os.open(record.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with closing(FolderWatch(folder_fd)) as watch:
            before = _inode(record)
            job.release()
            while True:
                wait_for(Watch(entries=((watch.fileno(), select.POLLIN),), timeout_s=_ENDED_WITHIN_S))
                seen_ns = time.monotonic_ns()
                watch.clear()
                found, ended_ns = _inode(record), job.ended_ns()  # in this order: what was written before the end is not of it
                if ended_ns and found not in (None, before):
                    return seen_ns
                if ended_ns and seen_ns - ended_ns > _ENDED_WITHIN_S * 1e9:
                    raise TimeoutError(f"{record} is not written")
                before = found
    finally:
        os.close(folder_fd)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
