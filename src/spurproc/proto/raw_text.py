"""Bytes that are text most of the time: arguments, paths, environment entries. As text where they are UTF-8, else exact."""

from __future__ import annotations

import os

import msgspec

__all__ = ["RawBytes", "RawText", "raw_bytes", "raw_text"]


class RawBytes(msgspec.Struct, frozen=True):
    """Bytes that are no UTF-8."""

    base64: bytes


RawText = str | RawBytes


def raw_text(value: str | bytes | os.PathLike[str]) -> RawText:
    """As it is written down."""
    content = os.fsencode(value)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return RawBytes(content)


def raw_bytes(text: RawText) -> bytes:
    """Undo `raw_text`."""
    return text.encode("utf-8") if isinstance(text, str) else text.base64
