"""How the documentation is built: `make docs`, where a warning is an error."""

import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "spurproc"
author = "the spurproc authors"
version = release = _version("spurproc")

extensions = ["myst_parser", "sphinx.ext.autodoc", "public_names", "supervisor_table", "attempt_table", "agent_settings"]
exclude_patterns = ["_extensions"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

html_theme = "furo"
html_title = "spurproc"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "exclude-members": "packed, events_fd, stdio, limits_packed, affinity_packed, facilities, bits",  # for the package itself
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# Every reference has to lead somewhere. What is not ours is not looked up: a build needs no network.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(builtins|collections|enum|os|pathlib|types|typing|asyncio)\..*"),
    ("py:.*", r"(bool|bytes|dict|float|frozenset|int|list|object|str|tuple|type|None)"),
    ("py:.*", r"(Any|Callable|Collection|Iterable|Literal|Mapping|Path|PathLike|Self|Sequence|Unpack)"),
    ("py:exc", r"(Exception|OSError|ValueError|PermissionError|ProcessLookupError|TimeoutError)"),
]
