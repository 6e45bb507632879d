"""The paths of a job's streams, with what is known only when it runs.

| in a pattern | becomes |
|---|---|
| `%j` | the job's id |
| `%a` | which attempt it is, from 1 |
| `%s` | the step: `batch` for the job's script |
| `%x` | the job's name |
| `%u` | the name of its user |
| `%N` | the name of the node |
| `%%` | a percent sign |

Anything else after a percent sign is an error when the job is submitted, not a file of a strange name when it runs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from spurproc.errors import InvalidArgument
from spurproc.proto.raw_text import RawText, raw_bytes
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["PatternValues", "check_pattern", "checked_bytes", "expand_pattern"]

_PLACE = re.compile(rb"%(.?)", re.DOTALL)
_LETTERS = frozenset(b"jasxuN%")
_PATH_LAST = 4095


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternValues:
    """What stands for the letters."""

    runtime_id: RuntimeId
    job_name: str
    user: str
    node: str


def checked_bytes(field: str, text: RawText) -> bytes:
    """As execve(2) and open(2) take it. Raises InvalidArgument, with the field, for a NUL or what is no Unicode."""
    try:
        content = raw_bytes(text)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{field}: {error}") from None
    if b"\0" in content:
        raise InvalidArgument(f"{field}: {os.fsdecode(content)!r:.100} holds a NUL")
    return content


def check_pattern(field: str, pattern: RawText) -> None:
    """Raises InvalidArgument, with the field, for one that is no path or holds an unknown letter."""
    content = checked_bytes(field, pattern)
    if not content or len(content) > _PATH_LAST:
        raise InvalidArgument(f"{field}: {os.fsdecode(content)!r:.200} is no path")
    for place in _PLACE.finditer(content):
        if not place[1] or place[1][0] not in _LETTERS:
            known = "%j %a %s %x %u %N %%"
            raise InvalidArgument(f"{field}: {os.fsdecode(place[0])!r} in {os.fsdecode(content)!r:.200} is none of {known}")


def expand_pattern(pattern: RawText, values: PatternValues) -> bytes:
    """The path. No value adds a folder to it: a slash in one becomes an underscore."""
    job_id, run_attempt, step = str(values.runtime_id).split(".")
    by_letter = {
        b"j": job_id,
        b"a": run_attempt,
        b"s": step,
        b"x": values.job_name,
        b"u": values.user,
        b"N": values.node,
        b"%": "%",
    }
    plain = {letter: os.fsencode(value).replace(b"/", b"_") for letter, value in by_letter.items()}
    return _PLACE.sub(lambda place: plain[place[1]], raw_bytes(pattern))
