"""Who a job runs as: names and numbers looked up in the user database before anything is forked."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass

from spurproc.errors import InvalidArgument

__all__ = ["Credentials", "credentials_of"]

_ID_LAST = 0xFFFFFFFE  # the number above it means "leave as it is" to setresuid(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What to change to; None: as the launcher has it. `groups` are the supplementary groups, sorted, each once."""

    uid: int | None
    gid: int | None
    groups: tuple[int, ...] | None


def credentials_of(user: str | int | None, group: str | int | None, groups: Sequence[str | int] | None) -> Credentials:
    """The numbers behind `user`, `group`, `groups`. May block: the database can be a network service (nsswitch.conf(5)).

    A user brings the gid and the groups of its entry where they are not given. A uid without an entry brings no groups, and
    the gid of the same number unless that is somebody's group: then `group` has to say. Where anything is given the
    supplementary groups are always set, so that none of the launcher's remain. Raises InvalidArgument naming the field.
    """
    if user is None and group is None and groups is None:
        return Credentials(uid=None, gid=None, groups=None)
    uid, entry = _user(user, needs_entry=group is None or groups is None)
    gid = _group("group", group) if group is not None else _default_gid(uid, entry)
    if groups is not None:
        members = [_group("groups", one) for one in groups]
    elif entry is not None and gid is not None:
        members = os.getgrouplist(entry.pw_name, gid)
    else:
        members = []
    return Credentials(uid=uid, gid=gid, groups=tuple(sorted(set(members))))


def _number(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _ID_LAST:
        raise InvalidArgument(f"{field}: {value!r} is no id")
    return value


def _user(user: str | int | None, *, needs_entry: bool) -> tuple[int | None, pwd.struct_passwd | None]:
    if user is None:
        return None, None
    if not isinstance(user, str):
        uid = _number("user", user)
        return _user_of_uid(uid) if needs_entry else (uid, None)
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise InvalidArgument(f"user: there is no user {user!r}") from None
    return entry.pw_uid, entry


def _user_of_uid(uid: int) -> tuple[int, pwd.struct_passwd | None]:
    try:
        return uid, pwd.getpwuid(uid)
    except KeyError:
        return uid, None


def _group(field: str, group: str | int) -> int:
    if not isinstance(group, str):
        return _number(field, group)
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise InvalidArgument(f"{field}: there is no group {group!r}") from None


def _default_gid(uid: int | None, entry: pwd.struct_passwd | None) -> int | None:
    if uid is None:
        return None
    if entry is not None:
        return entry.pw_gid
    try:
        name = grp.getgrgid(uid).gr_name
    except KeyError:
        return uid
    raise InvalidArgument(f"group: needed, for uid {uid} has no user entry and gid {uid} is the group {name!r}")
