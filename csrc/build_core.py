"""The cffi builder of `spurproc.core._spurcore` (API mode, stable ABI).

The compiler and cffi read the same declarations, `spurcore.cdef.h`, so they cannot drift.
"""

from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).resolve().parent
ROOT = CSRC.parent

# Written out, not globbed: csrc/ also holds the static program and the C tests.
UNITS = [
    "cgroup.c",
    "child.c",
    "clone.c",
    "facilities.c",
    "identity.c",
    "liveness.c",
    "members.c",
    "pidfd.c",
    "plan.c",
    "procstat.c",
    "reserve.c",
    "signals.c",
    "spawn.c",
    "watch.c",
]
FLAGS = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]

ffibuilder = FFI()
for declarations in ("plan.h", "spurcore.cdef.h"):
    ffibuilder.cdef((CSRC / declarations).read_text(encoding="ascii"))
ffibuilder.set_source(
    "spurproc.core._spurcore",
    '#include "spurcore.h"',
    sources=[str((CSRC / unit).relative_to(ROOT)) for unit in UNITS],
    include_dirs=[str(CSRC)],
    depends=[str(path) for path in sorted(CSRC.glob("*.h"))],
    extra_compile_args=FLAGS,
    py_limited_api=True,
)
