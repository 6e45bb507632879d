"""An installation of the core alone, without what supervised steps need."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT = """
import sys
sys.modules["msgspec"] = None  # as if it were not installed: import raises ModuleNotFoundError
import spurproc
spurproc.run, spurproc.SpawnPlan, spurproc.RuntimeId
for name in ("launch", "adopt", "gc", "Step", "StepSpec", "Hook"):
    try:
        getattr(spurproc, name)
    except spurproc.Unsupported as error:
        print(error)
"""


def test_the_extra_is_named_at_the_first_use_of_a_name_that_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"cannot use spurproc.{name}: the package 'msgspec' is missing: pip install 'spurproc[stepd]'"
        for name in ("launch", "adopt", "gc", "Step", "StepSpec", "Hook")
    ]


def test_importing_the_package_loads_none_of_it() -> None:
    program = "import sys, spurproc; print(sorted(name for name in sys.modules if 'msgspec' in name or 'client' in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
