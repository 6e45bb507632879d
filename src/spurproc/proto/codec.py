"""The one way in which records and messages become bytes and come back: JSON, each with the version of its writer.

A reader takes its own version and the one before. A newer one is refused by its number, and what was read stays as it is, for a
newer program may still need it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from spurproc.errors import RecordInvalid, RecordTooNew

__all__ = ["OLDEST_VERSION", "PROTOCOL_VERSION", "Record", "decode", "encode", "version_of"]

PROTOCOL_VERSION = 1
"""Of all records and messages together. Raised when a reader of the version before could misunderstand one."""
OLDEST_VERSION = max(1, PROTOCOL_VERSION - 1)

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A base for what stands on disk by itself, or opens a conversation. `v` is the version of the writer."""

    v: int = PROTOCOL_VERSION


class _Head(msgspec.Struct, frozen=True):
    v: int


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)


def encode(value: object) -> bytes:
    """One line of JSON in UTF-8, without its newline."""
    return _encoder.encode(value)


def decode(content: bytes, kind: type[T], where: str) -> T:
    """Undo `encode` for a `kind`, strictly. Unknown fields are left out: a later release of the same version may add some.

    Raises RecordInvalid for whatever is no such value, naming `where` and the field.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value: T = decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordInvalid(where, str(error)) from None
    return value


def version_of(content: bytes, where: str) -> int:
    """The version of a record's writer. Raises RecordTooNew for one that is beyond us, RecordInvalid for none or a lost one."""
    version = decode(content, _Head, where).v
    if version > PROTOCOL_VERSION:
        raise RecordTooNew(where, version)
    if version < OLDEST_VERSION:
        raise RecordInvalid(where, f"its version is {version}, which is older than {OLDEST_VERSION}, the oldest that is read")
    return version
