"""From what was typed to a job: the script as its user reads it, the environment it is to have, and as whom it runs."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spurproc.agent.jobs.job_spec import JobSpec, RequeuePolicy
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.replies import Welcome
from spurproc.core.spawn.credentials import credentials_of
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import InvalidArgument
from spurproc.proto.raw_text import RawText, raw_text

__all__ = ["OF_LOGIN", "Owner", "Typed", "environment_of", "job_spec", "own_or", "read_script"]

OF_LOGIN = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ", "USER")
"""What a job gets of an environment where nothing else is said, and `LC_*`."""
_OF_USER = ("HOME", "LOGNAME", "SHELL", "USER")
_OPTIONS = {"stdin": "--input", "stdout": "--output", "stderr": "--error", "work_dir": "--workdir", "pids_max": "--pids"}
"""Where a field of a job has another name than what is typed for it."""
_READ_BYTES = 1 << 18
_NAME_LAST_BYTES = 128
_ID_LAST_DIGITS = 100
"""More than any id has, and Python reads so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """As whom a job runs."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    user: str
    home: Mapping[str, str]
    """What its environment says of the user; empty: what ours says."""


def own_or(user: str | None, welcome: Welcome) -> Owner:
    """Ourselves, as the agent takes us; or `user`, as the user database has it. Raises InvalidArgument."""
    if user is None:
        return Owner(uid=welcome.uid, gid=welcome.gid, groups=welcome.groups, user=welcome.user, home={})
    is_number = user.isascii() and user.isdigit() and len(user) <= _ID_LAST_DIGITS
    found = credentials_of(int(user) if is_number else user, None, None)
    if found.uid is None or found.gid is None:
        raise InvalidArgument(f"--user: there is no user {user!r:.60}")
    try:
        entry = pwd.getpwuid(found.uid)
    except KeyError:
        return Owner(uid=found.uid, gid=found.gid, groups=found.groups or (), user=str(found.uid), home={"HOME": "/"})
    home = {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell or "/bin/sh", "USER": entry.pw_name}
    return Owner(uid=found.uid, gid=found.gid, groups=found.groups or (), user=entry.pw_name, home=home)


def environment_of(
    export: str, given: Sequence[str], owner: Owner, environment: Mapping[bytes, bytes] = os.environb
) -> tuple[RawText, ...]:
    """The entries that a job gets. `export`: ALL, NONE, or names; empty: what a login has. `given` goes before all.

    Raises InvalidArgument for a name that is not set, and for what is no NAME=value.
    """
    chosen = _exported(export, environment)
    if owner.home and export != "NONE":
        chosen = {name: value for name, value in chosen.items() if os.fsdecode(name) not in _OF_USER}
        chosen |= {os.fsencode(name): os.fsencode(value) for name, value in owner.home.items()}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise InvalidArgument(f"--env: {entry!r:.60} is no NAME=value")
        chosen[os.fsencode(name)] = os.fsencode(value)
    return tuple(raw_text(name + b"=" + value) for name, value in sorted(chosen.items()))


def _exported(export: str, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    if export == "ALL":
        return dict(environment)
    if export == "NONE":
        return {}
    if not export:
        login = {os.fsencode(name) for name in OF_LOGIN}
        return {name: value for name, value in environment.items() if name in login or name.startswith(b"LC_")}
    names = [os.fsencode(name) for name in export.split(",")]
    for name in names:
        if name not in environment:
            raise InvalidArgument(f"--export: {os.fsdecode(name)!r:.60} is not set (or ALL, or NONE)")
    return {name: environment[name] for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The options and arguments of `submit`, read. `script`: its path; None: `arguments` are a program and its own."""

    script: str | None
    arguments: tuple[str, ...]
    name: str | None
    request: ResourceRequest
    pids_max: int | None
    time_limit_s: float | None
    output: str | None
    error: str | None
    stdin: str | None
    work_dir: str | None
    export: str
    env: tuple[str, ...]
    kill_plan: KillPlan | None
    requeue: bool


def job_spec(typed: Typed, owner: Owner, script: bytes | None, welcome: Welcome) -> JobSpec:
    """With what the node says where nothing was typed. Raises InvalidArgument, which names what was typed."""
    try:
        return _job_spec(typed, owner, script, welcome)
    except InvalidArgument as error:
        field, colon, reason = str(error).partition(": ")
        if colon and field == "script":
            raise InvalidArgument(f"cannot submit the script {typed.script!r:.200}: {reason}") from None
        raise InvalidArgument(f"{_OPTIONS.get(field, field)}{colon}{reason}") from None


def _job_spec(typed: Typed, owner: Owner, script: bytes | None, welcome: Welcome) -> JobSpec:
    return JobSpec(
        name=typed.name if typed.name is not None else _default_name(typed),
        user=owner.user,
        uid=owner.uid,
        gid=owner.gid,
        groups=owner.groups,
        resources=typed.request,
        script=script,
        argv=tuple(map(raw_text, typed.arguments)),
        env=environment_of(typed.export, typed.env, owner),
        work_dir=raw_text(_work_dir(typed)),
        stdin=None if typed.stdin is None else raw_text(typed.stdin),
        stdout=raw_text(welcome.output_pattern if typed.output is None else typed.output),
        stderr=None if typed.error is None else raw_text(typed.error),
        umask=0o022 if owner.home else _own_umask(),
        pids_max=typed.pids_max,
        time_limit_s=typed.time_limit_s,
        kill_plan=typed.kill_plan or welcome.kill_plan,
        requeue=RequeuePolicy.ON_NODE_FAULT if typed.requeue else RequeuePolicy.NEVER,
    )


def _work_dir(typed: Typed) -> str:
    try:
        if typed.work_dir is not None:
            return os.path.abspath(typed.work_dir) if typed.work_dir else ""
        return os.getcwd()
    except OSError as error:
        raise InvalidArgument(f"cannot use the current folder as the job's: {error.strerror} (see --workdir)") from None


def _default_name(typed: Typed) -> str:
    """After what it runs, as far as that is a name."""
    path = typed.script if typed.script is not None else typed.arguments[0]
    base = os.path.basename(path) if path != "-" else "stdin"
    printable = "".join(character if character.isprintable() else "_" for character in base).strip()
    cut = printable.encode(errors="replace")[:_NAME_LAST_BYTES].decode(errors="ignore").strip()
    return cut or "job"


def _own_umask() -> int:
    """Source: proc_pid_status(5), Umask (4.7). umask(2) cannot be asked without being changed."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)


def read_script(path: str, limit_bytes: int) -> bytes:
    """All of it, as the user who submits; `-`: standard input. Raises InvalidArgument, which names what is wrong with it."""
    try:
        content = _read(path, limit_bytes + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read the script {path!r:.200}: {error.strerror}") from None
    if len(content) > limit_bytes:
        longest = f"{limit_bytes} bytes is the longest that the agent takes (max_job_script_bytes)"
        raise InvalidArgument(f"cannot submit the script {path!r:.200}: it is longer than that; {longest}")
    return content


def _read(path: str, most_bytes: int) -> bytes:
    fd = os.dup(sys.__stdin__.fileno() if sys.__stdin__ is not None else -1) if path == "-" else _opened(path)
    pieces: list[bytes] = []
    try:
        while most_bytes > 0 and (piece := os.read(fd, min(_READ_BYTES, most_bytes))):
            pieces.append(piece)
            most_bytes -= len(piece)
    finally:
        os.close(fd)
    return b"".join(pieces)


def _opened(path: str) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(21, "Is a directory")
    return fd
