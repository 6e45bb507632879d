"""The compiled core and its typed stub say the same, and one module stands between it and the rest."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

from spurproc.core._native import lib
from tests.meta.repository import ROOT, text_files

CORE = ROOT / "src" / "spurproc" / "core"


def test_stub_has_the_names_of_the_library() -> None:
    """Every function and constant of the library has its type, and no other."""
    tree = ast.parse((CORE / "_spurcore.pyi").read_text(encoding="utf-8"))
    face = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "_Lib")
    functions = {node.name for node in face.body if isinstance(node, ast.FunctionDef)}
    constants = {ast.unparse(node.target) for node in face.body if isinstance(node, ast.AnnAssign)}
    assert functions | constants == set(dir(lib))


def test_stub_has_the_parameters_of_the_header() -> None:
    """The parameters are those of spurcore.cdef.h, by name and in order."""
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "csrc" / "spurcore.cdef.h").read_text(encoding="utf-8"), flags=re.DOTALL)
    declared = {
        name: [] if text.strip() == "void" else [re.split(r"[\s*]+", part.split("[")[0].strip())[-1] for part in text.split(",")]
        for name, text in re.findall(r"\b(spur_\w+)\(([^)]*)\);", header)
    }
    tree = ast.parse((CORE / "_spurcore.pyi").read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    typed = {node.name: [each.arg for each in node.args.posonlyargs if each.arg != "self"] for node in functions}
    assert typed == declared


def test_no_call_that_signals_a_number() -> None:
    """A number may be a stranger's by the time it is used: signals go by pidfd or by cgroup.kill, and nothing else is linked."""
    library = str(sys.modules["spurproc.core._spurcore"].__file__)
    listing = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in listing.splitlines()}
    assert "poll" in names, listing
    assert not names & {"kill", "killpg", "tgkill", "raise", "sigqueue", "pthread_kill", "pthread_sigqueue"}


def test_one_module_imports_the_library() -> None:
    """Everyone else goes through `_native`, where -errno becomes an exception."""
    importers = {
        path.name for path in text_files("src") if path.suffix == ".py" and "_spurcore" in path.read_text(encoding="utf-8")
    }
    assert importers == {"_native.py"}
