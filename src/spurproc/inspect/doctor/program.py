"""The static program between clone and the job: is it there, and does it run."""

from __future__ import annotations

import os

from spurproc.core.spawn.program import PROGRAM_PATH
from spurproc.inspect.doctor.finding import Finding, Status

__all__ = ["find_program"]

_NO_PLAN = 127  # SPUR_CODE_NO_EXEC in csrc/clone.h
_LOST = "no run can be recorded, and no job started with a user, limits or a cgroup"


def find_program(path: str = PROGRAM_PATH) -> Finding:
    """Started once without a plan: it ends at once and does nothing."""
    try:
        pid = os.posix_spawn(path, [os.path.basename(path)], {})
    except OSError as error:
        return _finding(Status.MISSING, f"{path}: {error.strerror}{_hint(path)}", _LOST)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != _NO_PLAN:
        how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
        return _finding(Status.MISSING, f"{path}: does not work here, it {how}", _LOST)
    return _finding(Status.OK, path, "")


def _hint(path: str) -> str:
    """What errno alone does not say."""
    if not os.path.exists(path):
        return "; the package was built without it"
    if os.statvfs(path).f_flag & os.ST_NOEXEC:
        return "; its file system is mounted noexec"
    return "" if os.access(path, os.X_OK) else "; it has no execute bit"


def _finding(status: Status, value: str, meaning: str) -> Finding:
    return Finding(area="program", name="spurproc-exec", status=status, value=value, meaning=meaning, source="started")
