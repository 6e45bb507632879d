"""The environment of a job, as the bytes that execve(2) takes, and what it says about where programs lie."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from spurproc.errors import InvalidArgument

__all__ = ["EnvArgument", "env_entries", "exec_candidates", "inherited_entries"]

EnvArgument = Mapping[str, str] | Mapping[bytes, bytes] | Sequence[bytes] | None

# What a service manager told *us*: a job that kept these would answer for the launcher (sd_notify(3), sd_listen_fds(3),
# systemd.exec(5) "Environment Variables Set or Propagated by the Service Manager").
_OURS = frozenset(
    {
        b"NOTIFY_SOCKET",
        b"LISTEN_FDS",
        b"LISTEN_PID",
        b"LISTEN_PIDFDID",
        b"LISTEN_FDNAMES",
        b"INVOCATION_ID",
        b"JOURNAL_STREAM",
        b"WATCHDOG_PID",
        b"WATCHDOG_USEC",
        b"MAINPID",
        b"MAINPIDFDID",
        b"MANAGERPID",
        b"MANAGERPIDFDID",
        b"SYSTEMD_EXEC_PID",
        b"CREDENTIALS_DIRECTORY",
        b"MEMORY_PRESSURE_WATCH",
        b"MEMORY_PRESSURE_WRITE",
        b"FDSTORE",
    }
)
_DEFAULT_PATH = os.fsencode(os.defpath)


def inherited_entries() -> list[bytes]:
    """This process's environment, `NAME=value` each, less what a service manager set for us alone.

    From what os.environ holds, copied in one step, and not from environ(7): a thread that sets a variable frees the table there
    while another reads it. So what a C library changed behind Python's back does not show, and of a name given twice only the
    first does, as for getenv(3).
    """
    table: dict[bytes, bytes] = os.environb._data.copy()  # type: ignore[attr-defined]  # noqa: SLF001 - items() is not one step
    for name in _OURS.intersection(table):
        del table[name]
    return list(map(b"=".join, table.items()))


def env_entries(env: EnvArgument) -> list[bytes]:
    """`env` as entries: None is ours, scrubbed; a mapping or a list of raw `NAME=value` entries is taken in full.

    Raises InvalidArgument for a name that is empty or holds '='. NULs are found when the plan is packed.
    """
    if env is None:
        return inherited_entries()
    if isinstance(env, Mapping):
        return [_entry(name, value) for name, value in env.items()]
    return [_raw(entry) for entry in env]


def _raw(entry: object) -> bytes:
    if not isinstance(entry, bytes):
        raise InvalidArgument(f"env: neither a mapping nor a sequence of bytes entries: {entry!r}")
    return entry


def _entry(name: str | bytes, value: str | bytes) -> bytes:
    try:
        raw_name, raw_value = os.fsencode(name), os.fsencode(value)
    except (TypeError, UnicodeError) as error:
        raise InvalidArgument(f"env: {name!r}: {error}") from None
    if not raw_name or b"=" in raw_name:
        raise InvalidArgument(f"env: the name {name!r} is empty or holds '='; pass a sequence of raw entries if that is meant")
    return raw_name + b"=" + raw_value


def exec_candidates(argv0: bytes, entries: Sequence[bytes]) -> list[bytes]:
    """The paths to try for `argv0`: itself where it holds '/', else one for each folder in PATH of the job's own environment.

    Source: execvp(3), without its fallback to a shell. The first PATH counts, as in getenv(3); an empty folder is the cwd.
    """
    if b"/" in argv0 or not argv0:
        return [argv0]
    path = next((entry[5:] for entry in entries if entry.startswith(b"PATH=")), _DEFAULT_PATH)
    return [folder.rstrip(b"/") + b"/" + argv0 if folder else argv0 for folder in path.split(b":")]
