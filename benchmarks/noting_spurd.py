"""`spurd serve` that notes when it offers each report, and on a node with as many CPUs as it is told.

`python -m benchmarks.noting_spurd NOTES CPUS [--SETTING VALUE]...`
"""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path

_NOTE = struct.Struct("=QQ")
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


def read_offers(notes: Path) -> dict[int, int]:
    """When the report of each job was offered first, in nanoseconds of CLOCK_MONOTONIC."""
    content = notes.read_bytes()
    offers: dict[int, int] = {}
    for job, offered_ns in _NOTE.iter_unpack(content[: len(content) - len(content) % _NOTE.size]):
        offers.setdefault(job, offered_ns)
    return offers


def main() -> int:
    """Serve."""
    from spurproc.agent.configuration.loading import load_configuration  # noqa: PLC0415 - for the reader there is no need of it
    from spurproc.agent.controller.link import Acknowledged, AttemptReport, RefusedForGood  # noqa: PLC0415
    from spurproc.agent.controller.local.link import LocalLink  # noqa: PLC0415
    from spurproc.agent.daemon.agent import Parts  # noqa: PLC0415
    from spurproc.agent.daemon.serve import serve  # noqa: PLC0415
    from tests.spurd_program import have_cpus  # noqa: PLC0415

    notes, cpus, *words = sys.argv[1:]
    fd = os.open(notes, _APPEND, 0o600)

    class NotingLink(LocalLink):
        async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
            os.write(fd, _NOTE.pack(report.attempt.job_id, time.monotonic_ns()))
            return await super().report(report)

    if int(cpus):
        have_cpus(int(cpus))
    flags = {flag[2:].replace("-", "_"): value for flag, value in zip(words[::2], words[1::2], strict=True)}
    return serve(load_configuration(flags, environment={}), Parts(link=NotingLink))


if __name__ == "__main__":
    sys.exit(main())
