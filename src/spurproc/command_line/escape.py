"""Text from outside, made safe to show: on a terminal, in a line of its own, and in JSON.

Whoever names a process or a folder chooses the bytes of the name. Nothing that moves a cursor, ends a line, reorders letters or
breaks an encoding gets out.
"""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["escaped", "escaped_json", "printable"]

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Control characters, formats (bidirectional overrides, zero widths), surrogates, private, unassigned, line and paragraph ends.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escaped(text: str) -> str:
    r"""`text` in printable characters of one line: `\n`, `\x1b`, `\u202e`; a byte that is no UTF-8: `\xff`. `\` becomes `\\`."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escaped_character, text))


def printable(text: str) -> str:
    r"""As `escaped`, for a message in which names were escaped already: every `\` stays as it is."""
    return "\\".join(map(escaped, text.split("\\")))


def escaped_json(value: Any) -> Any:
    r"""`value` with each byte that is no UTF-8 as `\xff` in its strings; JSON itself escapes the rest, but has no such bytes."""
    if isinstance(value, str):
        return "".join(_byte(character) if _is_surrogate(character) else character for character in value)
    if isinstance(value, dict):
        return {escaped_json(name): escaped_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [escaped_json(part) for part in value]
    return value


def _escaped_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isascii() and character.isprintable():
        return character
    if _is_surrogate(character):
        return _byte(character)
    if unicodedata.category(character) in _UNSAFE:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _byte(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
