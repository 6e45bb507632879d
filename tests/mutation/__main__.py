"""`python -m tests.mutation`: which faults the suites notice. See CONTRIBUTING.md, "Mutants"."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence

from tests.mutation import trial
from tests.mutation.build import DoesNotBuild
from tests.mutation.catalogue import Mutant, load, misfit
from tests.mutation.generator import generated
from tests.mutation.scratch import Scratch

_LIMIT_S = 60.0
_WHOLE_LIMIT_S = 1800.0
_HANGING_SHARE = 0.2
"""Of the limit, for a fault that is known to make a test stand still."""


def main() -> int:
    """0 when each fault was noticed, or has a reason why nobody can."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", help="those whose name holds one of these; all by default")
    parser.add_argument("--check", action="store_true", help="only see whether each still applies")
    parser.add_argument("--generated", type=int, metavar="COUNT", help="a sample of made ones instead of the catalogue")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a fault first")
    parser.add_argument("--limit-s", type=float, default=_LIMIT_S, help="what one may take before it is ended from outside")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no further one after so many seconds")
    chosen = parser.parse_args()
    mutants = load() if chosen.generated is None else generated(chosen.generated, chosen.seed)
    mutants = [each for each in mutants if not chosen.names or any(name in each.name for name in chosen.names)]
    misfits = [reason for each in mutants if (reason := misfit(each))] if chosen.generated is None else []
    if misfits or chosen.check:
        print("\n".join(misfits) or f"{len(mutants)} mutants apply")
        return 1 if misfits else 0
    if os.geteuid() != 0:
        print("cannot try mutants: the tests that notice them need root and namespaces")
        return 2
    return _try_all(mutants, chosen)


def _try_all(mutants: Sequence[Mutant], chosen: argparse.Namespace) -> int:
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is under way is ended with us
    with Scratch() as scratch:
        if not (chosen.trust or _good_without(scratch, mutants)):
            return 1
        tried: list[tuple[Mutant, str]] = []
        for number, each in enumerate(mutants, 1):
            if time.monotonic() - begun < chosen.budget_s:
                print(f"{number}/{len(mutants)} ", end="", flush=True)
                tried.append((each, _try(scratch, each, chosen.limit_s, may_hang=each.hangs or chosen.generated is not None)))
    wrong = [each.name for each, verdict in tried if verdict != each.expected]
    counts = {kind: sum(verdict == kind for _, verdict in tried) for kind in ("killed", "SURVIVED", "BROKEN")}
    equivalent = sum(bool(each.equivalent) for each, _ in tried)
    print(
        f"{len(tried)} mutants: {counts['killed']} killed, {counts['SURVIVED']} survived ({equivalent} known as equivalent), "
        f"{counts['BROKEN']} broken, in {time.monotonic() - begun:.0f} s"
    )
    for name in wrong:
        print(f"not as it should be: {name}")
    return 1 if wrong else 0


def _good_without(scratch: Scratch, mutants: Sequence[Mutant]) -> bool:
    """Without any fault all the tests pass: else a failure says nothing."""
    tests = list(dict.fromkeys(test for each in mutants for test in each.tests))
    found = trial.run(scratch, tests, _WHOLE_LIMIT_S)
    print(f"without a fault, {len(tests)} selections | {found.noticed or 'all pass'} | {found.seconds:.1f} s", flush=True)
    if found.noticed or found.broken:
        print(found.output)
    return not (found.noticed or found.broken)


def _try(scratch: Scratch, mutant: Mutant, limit_s: float, *, may_hang: bool) -> str:
    """The verdict. To stand still is one only where that `may_hang`: else it may be for want of a processor."""
    begun = time.monotonic()
    try:
        with scratch.mutated(mutant):
            found = trial.run(scratch, mutant.tests, limit_s * _HANGING_SHARE if mutant.hangs else limit_s)
    except DoesNotBuild as error:
        print(error)
        verdict, by = "BROKEN", " (it does not build)"
    else:
        broken = found.broken or (found.hung and not may_hang)
        verdict = "BROKEN" if broken else "killed" if found.noticed else "SURVIVED"
        by = f" by {found.noticed}" if found.noticed else f" ({mutant.equivalent})" if mutant.equivalent else ""
        if broken:
            print(found.output)
    print(f"{mutant.name} | {verdict}{by} | {time.monotonic() - begun:.1f} s", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
