"""In which line each key stands, whatever the document looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.configuration.toml_lines import KeyPath, key_lines

DOCUMENT = '''\
# a comment
first = 1

list = [ # one
  "]",
  'x = 3',
]
text = """
fake = 1
[fake]
"""
raw = \'\'\'
"""
\'\'\'
inline = { a = 1, b = { c = 2 } }
dotted.key = 1
dotted.other = 2
"quoted key" = "\u2028" # \u2028 is no end of a line in TOML

[table]
# inside
inner = true
[table.below]
deep = [1,
2]
last = 1'''


def test_each_key_has_the_line_where_it_begins() -> None:
    """Values of many lines, what only looks like a key, tables, no newline at the end."""
    assert key_lines(DOCUMENT) == {
        ("first",): 2,
        ("list",): 4,
        ("text",): 8,
        ("raw",): 12,
        ("inline",): 15,
        ("inline", "a"): 15,
        ("inline", "b"): 15,
        ("inline", "b", "c"): 15,
        ("dotted",): 16,
        ("dotted", "key"): 16,
        ("dotted", "other"): 17,
        ("quoted key",): 18,
        ("table",): 20,
        ("table", "inner"): 22,
        ("table", "below"): 23,
        ("table", "below", "deep"): 24,
        ("table", "below", "last"): 26,
    }


def test_lines_that_end_as_on_windows() -> None:
    """Carriage returns count for nothing."""
    assert key_lines(DOCUMENT.replace("\n", "\r\n")) == key_lines(DOCUMENT)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing"])
def test_a_document_without_keys(text: str) -> None:
    """Has no lines of any."""
    assert key_lines(text) == {}


_VALUES = ["1", '"a#b"', "[\n1,\n# x\n2\n]", '"""\na = 1\n"""', "'''x'''", "{ y = 1 }", "1979-05-27"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(_VALUES)), max_size=12))
def test_every_document(parts: list[tuple[int, str]]) -> None:
    """Blank lines and comments before each of many values, of one line or of several."""
    text, line, expected = "", 1, dict[KeyPath, int]()
    for number, (blank, value) in enumerate(parts):
        text += "# k0 = 1\n" * blank + f"k{number} = {value}\n"
        expected[f"k{number}",] = line + blank
        line += blank + 1 + value.count("\n")
    assert {path: found for path, found in key_lines(text).items() if len(path) == 1} == expected
