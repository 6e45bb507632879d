"""What does `import spurproc` cost, and what does it bring along?"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from functools import partial

from benchmarks.measure import Contender, Figure, interleave, once_us
from benchmarks.parts import part
from benchmarks.scale import Scale

BARE = "python -c pass"
IMPORT = "import spurproc"
ALL_NAMES = "import spurproc, and every public name used"
SUBPROCESS = "import subprocess"
ASYNCIO = "import asyncio"
HEAVY = "of asyncio and subprocess, loaded by every public name"

_TOUCH = "import spurproc; [getattr(spurproc, name) for name in spurproc.__all__]"
_PROGRAMS = {
    BARE: "pass",
    IMPORT: "import spurproc",
    ALL_NAMES: _TOUCH,
    SUBPROCESS: "import subprocess",
    ASYNCIO: "import asyncio",
    "import psutil": "import psutil",
}
_IMPORT_TIME = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
_PROFILES = 5
_SHOWN = 8


def measure(scale: Scale) -> list[Figure]:
    """From the start of an interpreter to its end, in a round once each; the import is the difference to one that does nothing.

    In an interpreter of this environment, so each pays alike for what an editable install adds, and with bytecode on disk, as
    after any installation. Then -X importtime for the parts.
    """
    _output(_TOUCH)  # writes the bytecode where there is none
    contenders = [Contender(name=name, unit="ms", take=partial(_interpreter_ms, program)) for name, program in _PROGRAMS.items()]
    figures = interleave(contenders, scale.fewer(4), scale.warm_up)
    heavy = f"{_TOUCH}; import sys; print(len({{'asyncio', 'subprocess'}} & set(sys.modules)))"
    figures.append(Figure(name=HEAVY, unit="", rounds=[[float(_output(heavy))]]))
    return figures + _parts(IMPORT) + _parts(ALL_NAMES)


def _interpreter_ms(program: str) -> list[float]:
    command, environment = [sys.executable, "-c", program], _environment()
    call = partial(subprocess.run, command, check=True, env=environment)
    return [taken / 1000 for taken in once_us(call, 1, untimed=0)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _output(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_environment()).stdout


def _parts(call: str) -> list[Figure]:
    """The modules that take most of it, each without what it imports itself, by -X importtime, which slows them down a little."""
    taken: dict[str, list[float]] = defaultdict(list)
    bare = set(_import_times(_PROGRAMS[BARE]))
    for _ in range(_PROFILES):
        for module, spent_us in _import_times(_PROGRAMS[call]).items():
            if module not in bare:
                taken[module].append(spent_us)
    dearest = sorted(taken, key=lambda module: statistics.median(taken[module]), reverse=True)[:_SHOWN]
    return [Figure(name=part(call, module), unit="us", rounds=[[value] for value in taken[module]]) for module in dearest]


def _import_times(program: str) -> dict[str, int]:
    command = [sys.executable, "-X", "importtime", "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
    return {module: int(spent_us) for spent_us, module in _IMPORT_TIME.findall(done.stderr)}
