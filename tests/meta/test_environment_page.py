"""The page of environment variables names each that the package reads, and none that it does not."""

from __future__ import annotations

import re

from tests.meta.repository import ROOT, text_files

PAGE = ROOT / "docs/reference/environment.md"
# By os.environ, or by what copies it whole for a job: that one takes nothing out of it by name.
_READ = re.compile(
    r"\benvironb?(?:\.get\(|\[|\.pop\(|\.setdefault\()\s*([\w.\"']+)|\b(?:os\.|secure_)?getenvb?\(\s*([A-Za-z_\"'][\w.\"']*)"
)
_CONSTANT = re.compile(r'^(\w+_VARIABLE) = "(\w+)"$', re.MULTILINE)
_ENTRY = re.compile(r"^`(SPURPROC_\w+)`\n: ", re.MULTILINE)


def sources() -> list[str]:
    """The text of the package and of its C."""
    files = [path for path in text_files("src", "csrc") if path.suffix in {".py", ".c", ".h"}]
    return [path.read_text(encoding="utf-8") for path in files if path.parent.name != "tests"]


def test_the_page_has_what_is_read() -> None:
    """Each is read under a constant, which is how it can be found; what the page has beside these is read by nobody."""
    texts = sources()
    constants = {name: value for text in texts for name, value in _CONSTANT.findall(text)}
    read = {python or c for text in texts for python, c in _READ.findall(text)}
    assert read <= set(constants)
    assert {constants[name] for name in read} == set(constants.values())
    assert sorted(_ENTRY.findall(PAGE.read_text(encoding="utf-8"))) == sorted(constants.values())
