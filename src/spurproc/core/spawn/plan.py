"""What to start and how: a value that is checked when it is made and can be spawned many times."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.spawn.environment import EnvArgument
from spurproc.errors import InvalidArgument

__all__ = ["SpawnPlan", "Stdio", "check_plan"]

Stdio = int | str | bytes | os.PathLike[str] | None
"""A descriptor of the caller, a path that is opened as the job's user, or None: the null device."""

_FIRST_FREE_FD = 3
_FD_LAST = 0x7FFFFFFF
_CPU_LAST = 8191
_RLIM_INFINITY = 0xFFFFFFFFFFFFFFFF
_UMASK_LAST = 0o777
_OOM_SCORE_ADJ_LAST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnPlan:
    """One program to start.

    Every job gets a session and process group of its own, default signal dispositions, an empty signal mask, 0-2 as planned and
    no other descriptor than `pass_fds`. Making one raises InvalidArgument, which names the
    field. Names are looked up, and PATH is read, at each spawn.
    """

    argv: Sequence[str | bytes | os.PathLike[str]]
    """The program and its arguments. Without '/' the program is searched in PATH of the job's own environment."""
    env: EnvArgument = None
    """All of it: a mapping, or raw `NAME=value` entries as bytes. None: the caller's, less what a service manager told the caller
    alone (NOTIFY_SOCKET, LISTEN_FDS, WATCHDOG_USEC and their kin)."""
    cwd: str | bytes | os.PathLike[str] | None = None
    """Entered as the job's user. None: the caller's."""
    stdin: Stdio = None
    """A descriptor of the caller, a path that is opened as the job's user, or None, the null device."""
    stdout: Stdio = None
    """As stdin. A path is created with 0666 less the umask and appended to, never truncated: stdout and stderr may share one."""
    stderr: Stdio = None
    """As stdout."""
    user: str | int | None = None
    """A name or a number. Brings its own group and supplementary groups where those are not given; looked up at each spawn, which
    can block (nsswitch.conf(5)). Any but root has no capability of the launcher. credentials(7)."""
    group: str | int | None = None
    """A name or a number. None: the user's, else the caller's."""
    groups: Sequence[str | int] | None = None
    """The supplementary groups. None: the user's; where only `group` is given none, so that none of the caller's remain."""
    umask: int | None = None
    """0 to 0o777. None: the caller's."""
    limits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """`resource.RLIMIT_*` number -> (soft, hard), in the units of setrlimit(2); -1 is unlimited."""
    affinity: Collection[int] | None = None
    """Exactly these CPUs, or the start fails. None: the caller's. sched_setaffinity(2)."""
    oom_score_adj: int | None = None
    """-1000 to 1000. None: the caller's, but never below 0: a job must not inherit its supervisor's protection."""
    cgroup: Cgroup | None = None
    """Born in it. None: in the caller's."""
    pass_fds: Sequence[int] = ()
    """Descriptors >= 3 of the caller, open in the job under the same numbers."""
    no_new_privs: bool = False
    """No exec below the job gains privileges, set-user-id programs included. prctl(2), PR_SET_NO_NEW_PRIVS."""
    detach: bool = False
    """False: a child of the caller, who must wait for it. True: a child of init or of the nearest subreaper."""

    def __post_init__(self) -> None:
        self._keep_own_copies()
        self._check_argv()
        for name in ("stdin", "stdout", "stderr"):
            _check_stdio(name, getattr(self, name))
        if self.cwd is not None and not isinstance(self.cwd, (str, bytes, os.PathLike)):
            raise InvalidArgument(f"cwd: {self.cwd!r} is no path")
        if self.cgroup is not None and not isinstance(self.cgroup, Cgroup):
            raise InvalidArgument(f"cgroup: {self.cgroup!r} is no Cgroup")
        for name in ("no_new_privs", "detach"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name}: {getattr(self, name)!r} is neither True nor False")
        _check_range("umask", self.umask, 0, _UMASK_LAST)
        _check_range("oom_score_adj", self.oom_score_adj, -_OOM_SCORE_ADJ_LAST, _OOM_SCORE_ADJ_LAST)
        for resource, limit in self.limits.items():
            _check_limit(resource, limit)
        if self.affinity is not None and not self.affinity:
            raise InvalidArgument("affinity: no CPU at all")
        for cpu in self.affinity or ():
            _check_range("affinity", cpu, 0, _CPU_LAST)
        for fd in self.pass_fds:
            _check_range("pass_fds", fd, _FIRST_FREE_FD, _FD_LAST)

    def _keep_own_copies(self) -> None:
        """What was checked is what is spawned, each time: not what the caller's list holds by then, nor a used-up generator."""
        if isinstance(self.argv, (AbstractSet, Mapping)):
            raise InvalidArgument(f"argv: {self.argv!r} has no order")
        copies: dict[str, object] = {"argv": _copied("argv", self.argv), "pass_fds": _copied("pass_fds", self.pass_fds)}
        for name in ("groups", "affinity"):
            if getattr(self, name) is not None:
                copies[name] = _copied(name, getattr(self, name))
        if not isinstance(self.limits, Mapping):
            raise InvalidArgument(f"limits: {self.limits!r} is no mapping")
        copies["limits"] = dict(self.limits)
        if self.env is not None:
            copies["env"] = dict(self.env) if isinstance(self.env, Mapping) else _copied("env", self.env)
        for name, value in copies.items():
            object.__setattr__(self, name, value)

    def _check_argv(self) -> None:
        if not self.argv:
            raise InvalidArgument("argv: empty")
        for argument in self.argv:
            if not isinstance(argument, (str, bytes, os.PathLike)):
                raise InvalidArgument(f"argv: {argument!r} is no text, bytes or path")
        if not os.fspath(self.argv[0]):
            raise InvalidArgument("argv: the program's name is empty")

    @property
    def argv0(self) -> str:
        """The program as messages show it."""
        return os.fsdecode(self.argv[0])

    @property
    def stdio(self) -> tuple[Stdio, Stdio, Stdio]:
        """stdin, stdout, stderr."""
        return self.stdin, self.stdout, self.stderr

    @property
    def limits_packed(self) -> list[tuple[int, int, int]]:
        """(resource, soft, hard), unlimited as the kernel writes it."""
        return [
            (resource, soft % (_RLIM_INFINITY + 1), hard % (_RLIM_INFINITY + 1)) for resource, (soft, hard) in self.limits.items()
        ]

    @property
    def affinity_packed(self) -> bytes:
        """The CPUs as a mask for sched_setaffinity(2), a multiple of 8 bytes; empty: as the caller's."""
        if self.affinity is None:
            return b""
        mask = 0
        for cpu in self.affinity:
            mask |= 1 << cpu
        return mask.to_bytes((mask.bit_length() + 63) // 64 * 8, "little")


def _copied(name: str, values: object) -> tuple[object, ...]:
    if isinstance(values, (str, bytes)):
        hint = "; no shell is ever used" if name == "argv" else ""
        raise InvalidArgument(f"{name}: {values!r} is one string, not a sequence of them{hint}")
    if not isinstance(values, Iterable):
        raise InvalidArgument(f"{name}: {values!r} is no sequence")
    return tuple(values)


def _check_range(name: str, value: object, lowest: int, highest: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidArgument(f"{name}: {value!r} is not a number from {lowest} to {highest}")


def _check_stdio(name: str, value: object) -> None:
    if isinstance(value, int):
        _check_range(name, value, 0, _FD_LAST)
    elif value is not None and (not isinstance(value, (str, bytes, os.PathLike)) or not os.fspath(value)):
        raise InvalidArgument(f"{name}: {value!r} is no descriptor, path or None")


def _check_limit(resource: object, limit: object) -> None:
    _check_range("limits", resource, 0, 255)
    if not isinstance(limit, tuple) or len(limit) != 2:
        raise InvalidArgument(f"limits: {limit!r} is not a pair (soft, hard)")
    for value in limit:
        _check_range("limits", value, -1, _RLIM_INFINITY)
    soft, hard = (value % (_RLIM_INFINITY + 1) for value in limit)
    if soft > hard:
        raise InvalidArgument(f"limits: soft {limit[0]} is above hard {limit[1]}")


def check_plan(plan: object) -> None:
    """Raises InvalidArgument for anything but a SpawnPlan; an argv is what is given instead most often."""
    if not isinstance(plan, SpawnPlan):
        raise InvalidArgument(f"plan: {plan!r} is no SpawnPlan; SpawnPlan(argv=[...]) makes one")
