"""What importing the core loads."""

from __future__ import annotations

import subprocess
import sys

_HEAVY = ["asyncio", "subprocess", "threading", "logging", "multiprocessing", "socket", "ctypes", "pathlib", "uuid", "json"]
_MODULES = ["process.pidfd", "process.identity", "tree.liveness", "exit_info", "facilities", "vantage", "observation"]


def test_import_is_light() -> None:
    """None of the modules that cost memory in every fork; asyncio comes with the first wait_async alone."""
    program = f"""
import sys
before = set(sys.modules)
{"; ".join(f"import spurproc.core.{name}" for name in _MODULES)}
print(*sorted((set(sys.modules) - before) & set({_HEAVY})))
"""
    # -S: an editable install brings modules of its own through site.
    paths = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, env={"PYTHONPATH": paths}
    )
    assert done.stdout.split() == []


def test_the_package_alone_loads_next_to_nothing() -> None:
    """Each public name brings its own at its first use; not even `typing`, which takes longer than all else."""
    program = "import sys; before = set(sys.modules); import spurproc; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    loaded = done.stdout.split()
    assert {name for name in loaded if name.startswith("spurproc")} == {"spurproc", "spurproc.errors"}
    assert not {"typing", "re", "enum", "dataclasses"} & set(loaded)


def test_import_probes_nothing_and_sets_no_handler() -> None:
    program = """
import signal, sys
before = [signal.getsignal(n) for n in signal.valid_signals()]
import spurproc.core.tree.liveness, spurproc.core.facilities as f, spurproc.core.process.identity as i
assert f._current is None and i._reader is None
assert before == [signal.getsignal(n) for n in signal.valid_signals()]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
