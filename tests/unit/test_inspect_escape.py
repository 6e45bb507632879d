"""Names from outside are harmless on a terminal, in a line and in JSON, and are told apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.command_line.escape import escaped, escaped_json, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name", "plain name"),
        ("käse", "käse"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),  # CSI in one byte
        ("\x07\x7f", r"\x07\x7f"),
        ("a\u202eb", r"a\u202eb"),  # RIGHT-TO-LEFT OVERRIDE
        ("a\u2028b", r"a\u2028b"),  # LINE SEPARATOR
        ("a\u200bb", r"a\u200bb"),  # ZERO WIDTH SPACE
        ("\U000e0041", r"\U000e0041"),  # TAG LATIN CAPITAL LETTER A
        ("caf\udce9", r"caf\xe9"),
        ("\ud800", r"\ud800"),
        ("a\\nb", r"a\\nb"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text(st.characters(exclude_categories=[]), max_size=20))
def test_nothing_unsafe_gets_out(text: str) -> None:
    """One line, printable, and it can be encoded; JSON can be read by a strict reader."""
    shown = escaped(text)
    assert len(shown.encode("utf-8").splitlines()) <= 1
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert "\x1b" not in shown
    json.loads(json.dumps(escaped_json({text: [text, (text,), 1, None]}))).popitem()[1][0].encode("utf-8")


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_names_stay_apart(one: bytes, other: bytes) -> None:
    """Two names of other bytes never look the same."""
    texts = [name.decode("utf-8", "surrogateescape") for name in (one, other)]
    assert (escaped(texts[0]) == escaped(texts[1])) == (one == other)


def test_json_has_bytes_that_are_no_utf8_as_text() -> None:
    assert escaped_json({"a\udcff": ["\udc80b", ("\ud800",), 1, None, "\x1b"]}) == {
        "a\\xff": ["\\x80b", ["\\ud800"], 1, None, "\x1b"],
    }


def test_a_message_is_not_escaped_twice() -> None:
    assert printable("cannot open 'a\\x1b': no\n") == r"cannot open 'a\x1b': no\n"
