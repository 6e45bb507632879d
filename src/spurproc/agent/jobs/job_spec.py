"""What is submitted: all that a job is, with every name looked up. Checked when it is made, and again wherever it is read."""

from __future__ import annotations

import enum
import math
import os

import msgspec

from spurproc.agent.jobs.output_pattern import check_pattern, checked_bytes
from spurproc.agent.jobs.script import check_script
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import InvalidArgument
from spurproc.proto.raw_text import RawText, raw_bytes

__all__ = ["STRINGS_LAST", "JobSpec", "RequeuePolicy"]

_ID_LAST = 2**32 - 2
"""-1 means "leave it" to setresuid(2)."""
_NAME_LAST_BYTES = 128
_GROUPS_LAST = 65536
_STRING_LAST_BYTES = (128 << 10) - 1
_STRINGS_LAST_BYTES = 5 << 20
"""Both as execve(2) has them, "Limits on size of arguments and environment", with room below its 6 MiB."""
_STRING_COSTS_BYTES = 9
"""Beside its bytes, as execve(2) counts: the NUL and the pointer."""
STRINGS_LAST = 1 << 17
"""Arguments and environment entries of a job. Each costs the agent time, however short it is."""
_RLIM_LAST = 2**64 - 1


class RequeuePolicy(enum.Enum):
    """When a job runs again by itself."""

    NEVER = "never"
    ON_NODE_FAULT = "on-node-fault"
    """Where its attempt ended by no doing of its own: the node went down, or could not start it."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job. Raises InvalidArgument, which names the field.

    One that has neither `script` nor `argv` has to be a `reservation`: it holds its resources and runs nothing.
    """

    name: str
    """For people, and for `%x`; at most 128 bytes that can be printed, without a slash."""
    user: str
    """The name of `uid`, for `%u` and for people; nothing is looked up by it."""
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """The supplementary groups, all of them."""
    resources: ResourceRequest = ResourceRequest()
    script: bytes | None = None
    """See `spurproc.agent.jobs.script`."""
    argv: tuple[RawText, ...] = ()
    """The program and its arguments; where there is a script, the arguments of that."""
    reservation: bool = False
    env: tuple[RawText, ...] = ()
    """`NAME=value` entries, bytes kept. The job gets these and what the node tells it, and nothing else."""
    work_dir: RawText | None = None
    """Absolute. Missing or empty: a private scratch folder, which each attempt gets anew."""
    stdin: RawText | None = None
    """A path, as a pattern (`spurproc.agent.jobs.output_pattern`), relative to the work folder. None: the null device."""
    stdout: RawText = "job-%j.%a.out"
    """As `stdin`; appended to."""
    stderr: RawText | None = None
    """None: the same as `stdout`."""
    umask: int = 0o022
    limits: dict[int, tuple[int, int]] = {}
    """`resource.RLIMIT_*` number -> (soft, hard); -1 is unlimited. Others are the agent's."""
    pids_max: int | None = None
    time_limit_s: float | None = None
    kill_plan: KillPlan = KillPlan.default()
    requeue: RequeuePolicy = RequeuePolicy.NEVER

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        _check_name("user", self.user)
        for field in ("uid", "gid"):
            _check_range(field, getattr(self, field), _ID_LAST)
        if len(self.groups) > _GROUPS_LAST:
            raise InvalidArgument(f"groups: more than {_GROUPS_LAST}")
        for group in self.groups:
            _check_range("groups", group, _ID_LAST)
        self._check_program()
        self._check_paths()
        self._check_bounds()

    def _check_program(self) -> None:
        runs = self.script is not None or bool(self.argv)
        if runs is self.reservation:
            reason = "a reservation runs nothing" if runs else "there is neither a script nor an argv"
            raise InvalidArgument(f"{'reservation' if runs else 'argv'}: {reason}")
        if self.script is not None:
            check_script(self.script)
        elif self.argv and not checked_bytes("argv", self.argv[0]):
            raise InvalidArgument("argv: the name of the program is empty")
        size = sum(_checked_string("argv", text) for text in self.argv) + sum(_checked_entry(text) for text in self.env)
        strings = len(self.argv) + len(self.env)
        if size + strings * _STRING_COSTS_BYTES > _STRINGS_LAST_BYTES:
            what = f"{_STRINGS_LAST_BYTES} bytes, {_STRING_COSTS_BYTES} for each string with its own"
            raise InvalidArgument(f"env: together with argv it has more than {what}")
        if strings > STRINGS_LAST:
            raise InvalidArgument(f"env: together with argv it has more than {STRINGS_LAST} strings")

    def _check_paths(self) -> None:
        work_dir = b"" if self.work_dir is None else checked_bytes("work_dir", self.work_dir)
        if work_dir and not work_dir.startswith(b"/"):
            raise InvalidArgument(f"work_dir: {os.fsdecode(work_dir)!r:.200} is not absolute")
        for field in ("stdin", "stdout", "stderr"):
            pattern = getattr(self, field)
            if pattern is not None:
                check_pattern(field, pattern)

    def _check_bounds(self) -> None:
        _check_range("umask", self.umask, 0o777)
        _check_range("pids_max", self.pids_max, 2**31 - 1, least=1)
        for number, pair in self.limits.items():
            _check_range("limits", number, 255)
            soft, hard = (value % (_RLIM_LAST + 1) for value in pair)
            if not all(-1 <= value <= _RLIM_LAST for value in pair) or soft > hard:
                raise InvalidArgument(f"limits: {list(pair)!r:.100} of {number} is no pair of limits, soft and hard")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise InvalidArgument(f"time_limit_s: {self.time_limit_s!r} is not a number of seconds above 0")

    @property
    def wants_scratch(self) -> bool:
        """Whether its work folder is a private one that it gets from the node."""
        return self.work_dir is None or not raw_bytes(self.work_dir)


def _check_name(field: str, name: str) -> None:
    if (
        not name.isprintable()
        or "/" in name
        or not 1 <= len(name.encode(errors="replace")) <= _NAME_LAST_BYTES
        or name != name.strip()
    ):
        raise InvalidArgument(f"{field}: {name!r:.200} is no name of 1 to {_NAME_LAST_BYTES} printable bytes without a slash")


def _check_range(field: str, value: int | None, last: int, *, least: int = 0) -> None:
    if value is not None and not (type(value) is int and least <= value <= last):
        raise InvalidArgument(f"{field}: {value!r:.100} is not a number from {least} to {last}")


def _checked_string(field: str, text: RawText) -> int:
    content = checked_bytes(field, text)
    if len(content) > _STRING_LAST_BYTES:
        raise InvalidArgument(f"{field}: {os.fsdecode(content)!r:.100} has more than {_STRING_LAST_BYTES} bytes")
    return len(content)


def _checked_entry(text: RawText) -> int:
    content = checked_bytes("env", text)
    if content.find(b"=") < 1:
        raise InvalidArgument(f"env: {os.fsdecode(content)!r:.100} is no NAME=value")
    return _checked_string("env", text)
