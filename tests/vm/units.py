"""Transient units of systemd, for the system and for a user, with programs in them that say when they are ready."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TIMEOUT_S = 120
USER = "spurproc-test"

# Before a program of a test: `ready()` tells systemd, and so the test, that it stands where it should.
READY = """
import os, socket, sys
def ready():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
"""


@contextmanager
def running_unit(
    name: str, program: str, *arguments: object, properties: tuple[str, ...] = (), own_root: bool = True
) -> Iterator[str]:
    """A service whose main process is this program, from its `ready()` on; its name. Stopped at the end. systemd-run(1).

    `own_root`: its cgroups are made in the root of this test run, which only root may write, so that what is left is seen.
    """
    unit = f"spurproc-test-{name}.service"
    options = [f"--property={each}" for each in ("Type=notify", "NotifyAccess=all", *properties)]
    environment = _environment() if own_root else []
    _call(["systemd-run", "--quiet", "--collect", f"--unit={unit}", *environment, *options, *_python(program, arguments)])
    try:
        yield unit
    finally:
        stop(unit)


def stop(unit: str) -> None:
    """As an administrator does it: with the unit's own KillMode. Blocks until it is done. A stopped one is fine."""
    subprocess.run(["systemctl", "stop", unit], check=False, timeout=_TIMEOUT_S, stderr=subprocess.DEVNULL)


@contextmanager
def running_user_unit(name: str, program: str, *arguments: object, properties: tuple[str, ...] = ()) -> Iterator[str]:
    """As `running_unit`, in USER's own manager."""
    unit = f"spurproc-test-{name}.service"
    options = [f"--property={each}" for each in ("Type=notify", "NotifyAccess=all", *properties)]
    run = ["systemd-run", "--user", "--quiet", "--collect", f"--unit={unit}", *options]
    _call([*_as_user(), *run, *_python(program, arguments)])
    try:
        yield unit
    finally:
        stop_user_unit(unit)


def stop_user_unit(unit: str) -> None:
    """As `stop`, in USER's own manager."""
    command = [*_as_user(), "systemctl", "--user", "stop", unit]
    subprocess.run(command, check=False, timeout=_TIMEOUT_S, stderr=subprocess.DEVNULL)


def output_of_unit(program: str, *arguments: object, user: str, properties: tuple[str, ...] = ()) -> str:
    """What a program says in a service of the system that runs as `user`. Fails with it."""
    options = [f"--property={each}" for each in (f"User={user}", *properties)]
    return _call(["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *options, *_python(program, arguments)])


def output_of_user_unit(program: str, *arguments: object, properties: tuple[str, ...] = ()) -> str:
    """The same in a service of USER's own manager, as `systemd-run --user` starts it from a session."""
    options = [f"--property={each}" for each in properties]
    run = ["systemd-run", "--user", "--quiet", "--wait", "--pipe", "--collect", *options]
    return _call([*_as_user(), *run, *_python(program, arguments)])


def make_user() -> Path:
    """USER, with a manager of its own that runs; the home folder."""
    if subprocess.run(["id", USER], check=False, capture_output=True).returncode != 0:
        _call(["useradd", "--create-home", USER])
    entry = pwd.getpwnam(USER)
    _call(["systemctl", "start", f"user@{entry.pw_uid}.service"])
    return Path(entry.pw_dir)


@contextmanager
def users_folder() -> Iterator[Path]:
    """One of USER's own, for one test."""
    with tempfile.TemporaryDirectory(dir=make_user()) as name:
        entry = pwd.getpwnam(USER)
        os.chown(name, entry.pw_uid, entry.pw_gid)
        yield Path(name)


def _as_user() -> list[str]:
    """What a command of USER's, that speaks to the manager, begins with."""
    uid = pwd.getpwnam(USER).pw_uid
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}"]


def _python(program: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-c", READY + program, *map(str, arguments)]


def _environment() -> list[str]:
    """The root of this test run, so that what is left there is seen."""
    return [f"--setenv=SPURPROC_CGROUP_ROOT={os.environ['SPURPROC_CGROUP_ROOT']}"]


def _call(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, (command[:3], done.returncode, done.stdout, done.stderr)
    return done.stdout
