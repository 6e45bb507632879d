"""Builds the two compiled parts: the cffi extension and the static program beside it.

Everything that can be said as data stands in pyproject.toml.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).parent
SHARED_SOURCES = [ROOT / "csrc" / name for name in ("child.c", "clone.c", "plan.c", "procstat.c")]
PROGRAM_SOURCES = [*sorted((ROOT / "csrc" / "program").glob("*.c")), *SHARED_SOURCES]
PROGRAM_FLAGS = ["-std=gnu11", "-Os", "-static", "-s", "-Wall", "-Wextra", "-ffunction-sections", "-Wl,--gc-sections"]
# Two segments, and nothing relocated at its start: each further mapping and page costs every start a microsecond or two.
PROGRAM_FLAGS += ["-fno-pie", "-no-pie", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"]
MUSL_MISSING = "cannot build spurproc-exec: musl-gcc is not on PATH; install the Debian package musl-tools"


class BuildNative(build_ext):
    """build_ext, and the static program `spurproc-exec` into spurproc/core/bin."""

    def run(self) -> None:
        """Build both; the program first, for it is what a machine more often lacks the compiler of."""
        self.build_program(self.program_path())
        super().run()

    def program_path(self) -> Path:
        """Beside the sources for an editable install, else in the tree that becomes the wheel."""
        inplace = self.inplace or getattr(self, "editable_mode", False)
        base = ROOT / "src" if inplace else Path(self.build_lib)
        return base / "spurproc" / "core" / "bin" / "spurproc-exec"

    def build_program(self, target: Path) -> None:
        """Compile and link the static program."""
        # musl, because a static glibc takes six times as long to reach main() and four times the memory while it waits.
        compiler = shutil.which("musl-gcc")
        if compiler is None:
            raise CompileError(MUSL_MISSING)
        target.parent.mkdir(parents=True, exist_ok=True)
        sources = [str(path) for path in PROGRAM_SOURCES]
        subprocess.run([compiler, *PROGRAM_FLAGS, "-I", str(ROOT / "csrc"), *sources, "-o", str(target)], check=True)


setup(
    cffi_modules=["csrc/build_core.py:ffibuilder"],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
