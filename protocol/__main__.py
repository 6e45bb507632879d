"""Verify the models: each configuration is clean, each fault is found. One search at a time, a line each."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from protocol.catalogue import FOLDER, Search, load
from protocol.search import Outcome, make, run, trace_of

_MADE_AHEAD = 2
"""Compiling takes longer than finding a fault; searching takes the memory, so that is done one at a time."""
_SCRATCH = FOLDER.parent / ".cache" / "protocol"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all that was asked for is as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m protocol", description=__doc__)
    parser.add_argument("names", nargs="*", help="those whose name holds one of these; all by default")
    parser.add_argument("--quick", action="store_true", help="what `make check` runs: the base, and every fault")
    parser.add_argument("--trace", action="store_true", help="print the steps that lead to each fault too")
    chosen = parser.parse_args(arguments)
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            print(f"cannot verify the models: {tool} is not here; it is the Debian package {tool}")
            return 2
    searches = [each for each in load() if each.quick or not chosen.quick]
    searches = [each for each in searches if not chosen.names or any(name in each.name for name in chosen.names)]
    return verify(searches, _SCRATCH, trace=chosen.trace)


def verify(searches: Sequence[Search], scratch: Path, *, trace: bool = False) -> int:
    """Search each, and say what it came to; 1 if one did not come to what it had to, or there was none."""
    wrong = []
    folders = [scratch / search.name for search in searches]
    with ThreadPoolExecutor(_MADE_AHEAD) as pool:
        for search, folder, failed in zip(searches, folders, pool.map(make, searches, folders), strict=True):
            outcome = Outcome(broken=failed) if failed else run(search, folder)
            print(outcome.line(search), flush=True)
            if outcome.wrong(search):
                wrong.append(search.name)
            if trace or (outcome.violation and outcome.wrong(search)):
                print("".join(f"    {line}\n" for line in trace_of(search, folder)), end="")
    if not searches:
        print("nothing was searched")
    elif wrong:
        print(f"{len(wrong)} of {len(searches)} are not as they have to be: {', '.join(wrong)}")
    return 1 if wrong or not searches else 0


if __name__ == "__main__":
    sys.exit(main())
