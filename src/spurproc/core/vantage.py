"""Where we look from: boot, namespaces and procfs of this process.

The numbers of an identity mean something only to a reader in the same boot and pid namespace; start ticks are shifted by the
reader's own time namespace (time_namespaces(7)); and /proc may show another pid namespace than our own.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

from spurproc.errors import IdentityUnreadable, from_errno

__all__ = ["STARVED", "Vantage", "boot_id_valid", "raise_if_starved", "read_boot_id"]

STARVED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What says nothing of what was asked about: no descriptors or memory left to ask with."""

_BOOT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_READ_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """The reader's side of every identity.

    `boot_id` is the UUID of this boot (random(4)). Namespaces are inode numbers (namespaces(7)), 0 on a kernel without that kind.
    `procfs_is_ours`: /proc shows our own pid namespace, so a number read there is a number that we may use.
    """

    boot_id: str
    pid_namespace: int
    time_namespace: int
    procfs_is_ours: bool

    @classmethod
    def read(cls) -> Vantage:
        """Read anew; not cached, since a fork or setns(2) can change it. Raises IdentityUnreadable where /proc is missing."""
        try:
            procfs_is_ours = _procfs_is_ours(_read("/proc/self/status"))
            namespaces = _namespace("pid"), _namespace("time")
        except OSError as error:
            raise IdentityUnreadable(f"cannot read where this process stands: {error}") from error
        return cls(
            boot_id=read_boot_id(),
            pid_namespace=namespaces[0],
            time_namespace=namespaces[1],
            procfs_is_ours=procfs_is_ours,
        )


def read_boot_id() -> str:
    """The UUID of this boot alone, read anew. Raises IdentityUnreadable where /proc is missing. Source: random(4)."""
    try:
        boot_id = _read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    except OSError as error:
        raise IdentityUnreadable(f"cannot read where this process stands: {error}") from error
    if not boot_id_valid(boot_id):
        raise IdentityUnreadable(f"cannot read the boot id: {boot_id!r} is not a UUID")
    return boot_id


def raise_if_starved(error: IdentityUnreadable) -> None:
    """Raises SystemCallError if `error` came for want of descriptors or memory: then /proc may be there, and ours."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in STARVED:
        raise from_errno(cause.errno, "read", "where this process stands") from error


def boot_id_valid(text: object) -> bool:
    """Whether `text` is a boot id exactly as the kernel writes one: a lower-case UUID with its four dashes."""
    return isinstance(text, str) and _BOOT_ID.fullmatch(text) is not None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _READ_BYTES)
    finally:
        os.close(fd)


def _namespace(kind: str) -> int:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except FileNotFoundError:
        return 0


def _procfs_is_ours(status: bytes) -> bool:
    """One number in NSpid: the namespace of the mount is the innermost that we are in.

    Comparing /proc/self with getpid() would be fooled where both happen to be equal. Source: proc_pid_status(5), Linux 4.1.
    """
    for line in status.split(b"\n"):
        if line.startswith(b"NSpid:"):
            return len(line.split()) == 2
    return False
