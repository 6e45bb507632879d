"""What stands in one column of a row: a value of the kind that belongs there, or RecordInvalid, whatever else it is."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from spurproc.errors import RecordInvalid
from spurproc.proto.codec import decode

__all__ = ["plain_in", "record_in"]

T = TypeVar("T")


def record_in(value: object, kind: type[T], where: str) -> T:
    """A record, in our codec. Raises RecordInvalid."""
    if not isinstance(value, bytes):
        raise RecordInvalid(where, f"{type(value).__name__} is no record")
    return decode(value, kind, where)


def plain_in(value: object, kind: Any, where: str) -> Any:
    """A number, a text or bytes: SQLite keeps in a column what it is given. Raises RecordInvalid."""
    try:
        return msgspec.convert(value, kind, builtin_types=(bytes,))  # else a text would be bytes in base64
    except msgspec.ValidationError as error:
        raise RecordInvalid(where, str(error)) from None
