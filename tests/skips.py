"""Which skips are allowed. A skip hides a test, so each has an entry, and a strict run proves that the lack is real."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

_ENTRIES = Path(__file__).parent / "allowed_skips.toml"
_REASON = re.compile(r"(?:Skipped: )?(?P<name>needs_\w+)(?:\((?P<arguments>[^)]*)\))?: ")
_PROBE_TIMEOUT_S = 30


def strict() -> bool:
    """Whether SPURPROC_STRICT=1 asks for a proof of every skip."""
    return os.environ.get("SPURPROC_STRICT") == "1"


def refusal(reason: str) -> str | None:
    """Why this skip is not allowed; None if it is."""
    match = _REASON.match(reason)
    entry = _entries().get(match["name"]) if match else None
    if match is None or entry is None:
        return f"a skip without an entry in tests/allowed_skips.toml: {reason}"
    if not strict():
        return None
    arguments = tuple(part.strip() for part in (match["arguments"] or "").split(",") if part.strip())
    if _confirms(entry["probe"], arguments):
        return None
    return f"a skip that the machine does not bear out: {reason}\nthe probe of the entry failed: {entry['probe']} {arguments}"


@cache
def _entries() -> dict[str, dict[str, str]]:
    entries = tomllib.loads(_ENTRIES.read_text(encoding="utf-8"))["skip"]
    return {entry["requirement"]: entry for entry in entries}


@cache
def _confirms(probe: str, arguments: tuple[str, ...]) -> bool:
    """Run the probe in sh with the requirement's arguments as $1, $2; exit status 0 says that the machine lacks it."""
    done = subprocess.run(["sh", "-euc", probe, "probe", *arguments], check=False, capture_output=True, timeout=_PROBE_TIMEOUT_S)
    return done.returncode == 0
