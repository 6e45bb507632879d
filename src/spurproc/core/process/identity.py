"""A process named for good: a name that may be stored, and that no other process ever answers to.

Source: proc_pid_stat(5) field 22, pidfd_open(2), open_by_handle_at(2) on pidfs, namespaces(7), random(4) (boot id).
"""

from __future__ import annotations

import enum
import os
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EACCES, EINVAL, EXDEV
from functools import lru_cache
from typing import Any, Self

from spurproc.core._native import ffi, lib
from spurproc.core.facilities import Facilities, check_call, vanished
from spurproc.core.observation import LIVENESS_OF_CODE, Liveness, Observation
from spurproc.core.process.pidfd import SUBJECT, Pidfd, checked_pid
from spurproc.core.process.pidfd_number import pid_behind
from spurproc.core.vantage import Vantage, boot_id_valid, raise_if_starved
from spurproc.errors import IdentityUnreadable, InvalidArgument, SpurprocError, from_errno

__all__ = ["IdentityStrength", "ProcessIdentity", "keep_reader", "named_here", "number_here", "procfs_is_ours", "reader"]

_MAGIC = "spurproc-id"
_VERSION = 1
_U64 = 2**64 - 1
_RANGES = (
    ("pid", 1, 0x7FFFFFFF),
    ("start_ticks", 0, _U64),
    ("pidfs_inode", 1, _U64),
    ("pid_namespace", 0, _U64),
    ("time_namespace", 0, _U64),
)
_KIND = lib.SPUR_SUBJECT_IDENTITY


class IdentityStrength(enum.Enum):
    """What tells the process from a later one under the same number."""

    PIDFS_INODE = "pidfs-inode"
    """The inode of its pidfd, unique for the boot (Linux 6.9)."""
    START_TICKS = "start-ticks"
    """Its start time, in ticks of 10 ms: a number reused within one tick is not told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Which process: its number and what makes the number unique.

    `start_ticks` is raw, as the procfs of `time_namespace` shows it. `pidfs_inode` is None where the kernel has none. Namespaces
    are inode numbers; `time_namespace` is 0 on a kernel without time namespaces.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pidfs_inode: int | None
    pid_namespace: int
    time_namespace: int
    packed: bytes = field(init=False, repr=False, compare=False)
    """The form that the C core takes, and `liveness_many` many of."""

    def __post_init__(self) -> None:
        _check_fields(self)
        boot = bytes.fromhex(self.boot_id.replace("-", ""))
        inode = self.pidfs_inode or 0
        packed = SUBJECT.pack(_KIND, self.pid, self.start_ticks, inode, self.pid_namespace, self.time_namespace, boot)
        object.__setattr__(self, "packed", packed)

    @classmethod
    def of(cls, pid: int) -> Self:
        """The identity of the process that has the number `pid` now; a zombie has one too.

        Free of races: what is read belongs to one process, held meanwhile. Source: proc_pid_stat(5), pidfd_open(2), random(4),
        namespaces(7). Does not block. Raises AlreadyGone, InvalidArgument for a thread's
        number, IdentityUnreadable where /proc hides the process (hidepid) or shows another pid namespace.
        """
        subject = ffi.new("spur_subject_t *")
        return cls._taken(lib.spur_identity_of(reader(), checked_pid(pid), subject), pid, subject)

    @classmethod
    def of_pidfd(cls, pidfd: Pidfd) -> Self:
        """The identity of the process that `pidfd` holds. Raises as `of` does."""
        subject = ffi.new("spur_subject_t *")
        return cls._taken(
            lib.spur_identity_take(_reader_with(pidfd.facilities), pidfd.fileno(), pidfd.pid, subject), pidfd.pid, subject
        )

    @classmethod
    def of_child(cls, pid: int, start_ticks: int, inode: int) -> Self:
        """The identity of a child of which these were read before it could be reaped; `inode` is 0 without one."""
        here = reader()
        return cls(
            pid=pid,
            start_ticks=start_ticks,
            boot_id=_boot_text(ffi.buffer(here.boot_id)[:]),
            pidfs_inode=inode or None,
            pid_namespace=here.pid_namespace,
            time_namespace=here.time_namespace,
        )

    @classmethod
    def _taken(cls, error: int, pid: int, subject: Any) -> Self:
        if error == -EINVAL:
            raise InvalidArgument(f"cannot identify {pid}: a thread, not a process")
        if error in (-EXDEV, -EACCES):
            reason = "/proc shows another pid namespace" if error == -EXDEV else "/proc hides it (hidepid)"
            raise IdentityUnreadable(f"cannot identify process {pid}: {reason}")
        check_call(error, "identify", f"process {pid}")
        return cls(
            pid=subject.number,
            start_ticks=subject.start_ticks,
            boot_id=_boot_text(ffi.buffer(subject.boot_id)[:]),
            pidfs_inode=subject.inode or None,
            pid_namespace=subject.pid_namespace,
            time_namespace=subject.time_namespace,
        )

    @property
    def strength(self) -> IdentityStrength:
        """Which key tells it apart here: the inode needs to be recorded *and* to be readable on this host."""
        usable = self.pidfs_inode is not None and Facilities.current().pidfs_inode
        return IdentityStrength.PIDFS_INODE if usable else IdentityStrength.START_TICKS

    def liveness(self) -> Liveness:
        """Whether this very process lives. A few system calls; does not block. What cannot be told is UNKNOWN, not an error.

        By the handle of its pidfs inode (Linux 6.14), else by opening its number and comparing the inode (6.9) or start ticks.
        """
        try:
            return LIVENESS_OF_CODE[lib.spur_identity_liveness(_reader or reader(), self.packed)]
        except IdentityUnreadable:  # no /proc, or one that does not show us: who looks from nowhere can tell nothing
            return Liveness.UNKNOWN

    def observe(self) -> Observation:
        """`liveness` with the evidence."""
        seen = ffi.new("spur_observation_t *")
        try:
            here = reader()
        except IdentityUnreadable as error:
            return Observation(liveness=Liveness.UNKNOWN, evidence="vantage", detail=str(error))
        return _observation(lib.spur_identity_observe(here, self.packed, seen), seen)

    def open(self) -> Pidfd:
        """Hold this very process; its zombie too. The caller closes it. Does not block.

        From a pid namespace above the one in which it was named, `Pidfd.pid` is its number here.
        Raises AlreadyGone, and IdentityUnreadable where it cannot be told from here whether the process with that number is it.
        """
        seen: Any = ffi.new("spur_observation_t *")
        ret_fd = ffi.new("int *")
        code = lib.spur_identity_open(reader(), self.packed, ret_fd, seen)
        if code == lib.SPUR_ALIVE:
            same = reader().pid_namespace == self.pid_namespace
            return Pidfd(ret_fd[0], self.pid if same else pid_behind(ret_fd[0]), reader().facilities)
        detail = _observation(code, seen).detail
        if code == lib.SPUR_GONE:
            error = from_errno(3, "open", f"process {self.pid}")
            raise type(error)(3, f"cannot open process {self.pid}: {detail}")
        raise IdentityUnreadable(f"cannot open process {self.pid}: {detail}")

    def to_text(self) -> str:
        """One line of ASCII: `spurproc-id 1 <pid> <ticks> <boot_id> <inode|-> <pidns> <timens>`."""
        inode = "-" if self.pidfs_inode is None else self.pidfs_inode
        return (
            f"{_MAGIC} {_VERSION} {self.pid} {self.start_ticks} {self.boot_id} {inode} {self.pid_namespace} {self.time_namespace}"
        )

    @classmethod
    def from_text(cls, text: object) -> Self:
        """Exactly what `to_text` writes. Raises InvalidArgument, which names the bad part."""
        parts = text.split(" ") if isinstance(text, str) else []
        if len(parts) != 8 or parts[:2] != [_MAGIC, str(_VERSION)]:
            raise InvalidArgument(f"cannot read an identity: not '{_MAGIC} {_VERSION}' and six fields: {text!r:.200}")
        return cls(
            pid=_number("pid", parts[2]),
            start_ticks=_number("start_ticks", parts[3]),
            boot_id=parts[4],
            pidfs_inode=None if parts[5] == "-" else _number("pidfs_inode", parts[5]),
            pid_namespace=_number("pid_namespace", parts[6]),
            time_namespace=_number("time_namespace", parts[7]),
        )

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`."""
        return {"version": _VERSION} | {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_json(cls, form: object) -> Self:
        """Exactly what `to_json` gives. Raises InvalidArgument, which names the bad part."""
        if not isinstance(form, dict) or form.keys() != {"version", *_FIELDS}:
            raise InvalidArgument(f"cannot read an identity: not an object of version, {', '.join(_FIELDS)}")
        if form["version"] != _VERSION or type(form["version"]) is not int:
            raise InvalidArgument(f"cannot read an identity: version {form['version']!r}")
        return cls(**{name: form[name] for name in _FIELDS})

    def __str__(self) -> str:
        return self.to_text()


_FIELDS = ("pid", "start_ticks", "boot_id", "pidfs_inode", "pid_namespace", "time_namespace")
_reader: Any = None


def reader() -> Any:
    """This process as a `spur_reader_t`, kept until a fork: a child may stand in another pid or time namespace."""
    global _reader  # noqa: PLW0603 - one vantage a process
    if _reader is None:
        here = Vantage.read()
        made: Any = ffi.new("spur_reader_t *")
        made.pid_namespace, made.time_namespace = here.pid_namespace, here.time_namespace
        made.boot_id = bytes.fromhex(here.boot_id.replace("-", ""))
        facilities = Facilities.current()
        made.facilities = facilities.bits
        made.procfs_is_ours = here.procfs_is_ours
        if not facilities.settled:
            return made
        if not _hooked:
            _hooked.append(True)
            os.register_at_fork(after_in_child=forget_reader)
        _reader = made
    return _reader


def procfs_is_ours() -> bool:
    """Whether the numbers in /proc are ours to use: it is there, and shows our own pid namespace.

    Raises SystemCallError for want of descriptors or memory, which is not that they are not.
    """
    try:
        return bool((_reader or reader()).procfs_is_ours)
    except IdentityUnreadable as error:
        raise_if_starved(error)
        return False


def named_here(identity: ProcessIdentity) -> bool:
    """Whether its number is one of our own pid namespace; false where that cannot be told."""
    try:
        return bool(identity.pid_namespace == reader().pid_namespace)
    except IdentityUnreadable:
        return False


def number_here(identity: ProcessIdentity, pidfd: Pidfd | None) -> int:
    """The number of the process in our own pid namespace; 0 where it has none, or none that can be told.

    An identity from a child namespace (a container, seen from the host) holds its number there: here that is a stranger. Then
    `pidfd` (borrowed), or one opened for the moment, tells ours: good for as long as the process is not reaped.
    """
    if pidfd is not None and pidfd.pid > 0:
        return pidfd.pid
    if named_here(identity):
        return identity.pid
    if pidfd is None:
        with suppress(SpurprocError), identity.open() as held:
            return held.pid
    return 0


_hooked: list[bool] = []


def _reader_with(bits: int) -> Any:
    made: Any = ffi.new("spur_reader_t *", reader()[0])
    made.facilities = bits
    return made


def keep_reader(before: Any) -> None:
    """For a child that is known to stand where its parent stood when that had `before` of `reader`."""
    global _reader  # noqa: PLW0603
    _reader = before


def forget_reader() -> None:
    """Look again at the next question: after setns(2), or a new /proc, in this very process."""
    global _reader  # noqa: PLW0603
    _reader = None


def _check_fields(identity: ProcessIdentity) -> None:
    for name, low, high in _RANGES:
        value = getattr(identity, name)
        if value is None and name == "pidfs_inode":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidArgument(f"cannot read an identity: {name} {value!r}")
    if not boot_id_valid(identity.boot_id):
        raise InvalidArgument(f"cannot read an identity: boot_id {identity.boot_id!r}")


def _number(name: str, text: str) -> int:
    """A decimal as we write it: no sign, no leading zero, ASCII digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and (text == "0" or text[0] != "0")):
        raise InvalidArgument(f"cannot read an identity: {name} {text[:40]!r}")
    return int(text)


@lru_cache(maxsize=1)
def _boot_text(boot: bytes) -> str:
    text = boot.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_EVIDENCE = {
    lib.SPUR_EVIDENCE_ERROR: ("error", "the kernel refused to say"),
    lib.SPUR_EVIDENCE_BOOT: ("boot", "it belongs to another boot"),
    lib.SPUR_EVIDENCE_HANDLE: ("handle", "the inode of its pidfd was looked up"),
    lib.SPUR_EVIDENCE_PIDFS_INODE: ("pidfs-inode", "the inode of the pidfd under its number was compared"),
    lib.SPUR_EVIDENCE_TICKS: ("ticks", "the start ticks under its number were compared"),
    lib.SPUR_EVIDENCE_ESRCH: ("esrch", "no process has its number"),
    lib.SPUR_EVIDENCE_THREAD: ("thread", "its number belongs to a thread now"),
    lib.SPUR_EVIDENCE_ZOMBIE: ("zombie", "it has ended and is not reaped yet"),
    lib.SPUR_EVIDENCE_HIDDEN: ("hidden", "a process has its number, and /proc hides which (hidepid)"),
    lib.SPUR_EVIDENCE_PID_NAMESPACE: ("pid-namespace", "it was named in another pid namespace"),
    lib.SPUR_EVIDENCE_TIME_NAMESPACE: ("time-namespace", "its start ticks were read in another time namespace"),
    lib.SPUR_EVIDENCE_PROCFS: ("procfs", "/proc shows another pid namespace"),
}


def _observation(code: int, seen: Any) -> Observation:
    evidence, detail = _EVIDENCE[seen.evidence]
    if seen.error:
        detail = f"{detail}: {'; '.join(filter(None, (os.strerror(seen.error), vanished(seen.error))))}"
    return Observation(liveness=LIVENESS_OF_CODE[code], evidence=evidence, detail=detail)
