"""Names and numbers of the user database."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

import pytest

from spurproc.core.spawn.credentials import Credentials, credentials_of
from spurproc.errors import InvalidArgument

UNUSED = next(number for number in range(54321, 60000) if number not in {entry.gr_gid for entry in grp.getgrall()})


def test_nothing_given_changes_nothing() -> None:
    assert credentials_of(None, None, None) == Credentials(uid=None, gid=None, groups=None)


def test_user_brings_its_entry() -> None:
    for entry in pwd.getpwall()[:5]:
        groups = tuple(sorted(set(os.getgrouplist(entry.pw_name, entry.pw_gid))))
        expected = Credentials(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups)
        assert credentials_of(entry.pw_name, None, None) == expected
        assert credentials_of(entry.pw_uid, 5, [7, 6, 7]) == Credentials(uid=entry.pw_uid, gid=5, groups=(6, 7))


def test_uid_without_an_entry() -> None:
    """Its own number as group, unless that is somebody's: never a group it was not given."""
    assert credentials_of(UNUSED, None, None) == Credentials(uid=UNUSED, gid=UNUSED, groups=())
    uids = {entry.pw_uid for entry in pwd.getpwall()}
    taken = next(entry for entry in grp.getgrall() if entry.gr_gid not in uids)
    with pytest.raises(InvalidArgument, match=r"^group: "):
        credentials_of(taken.gr_gid, None, None)
    assert credentials_of(taken.gr_gid, 9, None) == Credentials(uid=taken.gr_gid, gid=9, groups=())


def test_group_alone_keeps_no_supplementary_groups() -> None:
    assert credentials_of(None, 5, None) == Credentials(uid=None, gid=5, groups=())


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("user", ("no such user", None, None)),
        ("user", ("a\0b", None, None)),
        ("user", (-1, None, None)),
        ("user", (True, None, None)),
        ("user", (2**32 - 1, None, None)),
        ("group", (None, "no such group", None)),
        ("group", (None, 2**32 - 1, None)),
        ("groups", (None, None, ["no such group"])),
        ("groups", (None, None, [-1])),
    ],
)
def test_refused(field: str, arguments: Any) -> None:
    """2**32 - 1 means "leave as it is" to setresuid(2): the job would run as root."""
    with pytest.raises(InvalidArgument, match=rf"^{field}: "):
        credentials_of(*arguments)
