"""What no cell can reach, and why. Whatever stands here and is reached after all fails a test, as does what is missing here."""

from __future__ import annotations

from tests.crash.points import HOST, LAUNCHER, SUPERVISOR

MOVES: dict[str, str] = {
    "NEW+GAVE_UP": "the state is another one before the first effect is carried out",
    "PROLOG+GAVE_UP": "no effect that is given up for stands between the start of a prolog and its end",
    "HELD+LINGER_OVER": "a stranger has removed the folder, and with it all that could be compared",
}
"""Moves of the table with effects that no scene takes."""

ACTS: dict[str, str] = {
    "Host._watch_elsewhere": "between the hosts of two releases: tests/e2e/test_step_upgrade.py",
    "Host._host_gone": "between the hosts of two releases: tests/e2e/test_step_upgrade.py",
}
"""Acts of a row that no scene does."""

_READS = "opens for reading"
_NESTED = "below a folder that somebody made in the step's folder"
CALLS: dict[str, str] = {
    "_open_parent:open": _READS,
    "_walk_to_parent:open": _READS,
    "_open_again:open": _READS,
    "_open_checked:open": _READS,
    "open_file:open": _READS,
    "sync_above:open": _READS,
    "_open_made:rmdir": "the folder was taken away between mkdir and open",
    "replace_file:fsync": "no record of a step is replaced durably",
    "_delete_below:open": _NESTED,
    "_delete_below:rename": _NESTED,
    "_delete_below:unlink": _NESTED,
    "_delete_below:rmdir": _NESTED,
}
"""Durable calls in the watched modules that no scene makes."""

ACTORS: dict[int, tuple[str, ...]] = {
    1: (LAUNCHER,),
    2: (LAUNCHER,),
    3: (LAUNCHER, HOST, SUPERVISOR),
    4: (LAUNCHER, SUPERVISOR),
    5: (LAUNCHER,),
    6: (HOST, SUPERVISOR),
    7: (SUPERVISOR,),
    8: (HOST, SUPERVISOR),
    9: (HOST, SUPERVISOR),
    10: (SUPERVISOR,),
    11: (LAUNCHER, SUPERVISOR),
    12: (LAUNCHER, SUPERVISOR),
    13: (LAUNCHER,),
}
"""Who does something in a row. A fault other than SIGKILL can strike these alone; who waits meanwhile can only be killed."""

_SENDS = "it sends and waits, and writes nothing"
_NO_FILE = "it makes and removes names, and writes into no file"
CANNOT_FAIL: dict[tuple[int, str], dict[tuple[str, ...], str]] = {
    (2, LAUNCHER): {("short write",): _NO_FILE},
    (3, LAUNCHER): {("ENOSPC", "EIO", "short write"): _SENDS},
    (3, HOST): {("ENOSPC", "EIO", "short write"): "it forks, and writes nothing"},
    (3, SUPERVISOR): {("short write",): "it opens the journal, and appends nothing yet"},
    (4, LAUNCHER): {("short write",): _NO_FILE},
    (5, LAUNCHER): {("ENOSPC", "EIO", "short write"): _SENDS},
    (6, HOST): {("ENOSPC", "EIO", "short write"): "it receives, and writes nothing"},
    (9, HOST): {("ENOSPC", "EIO", "short write"): "it forks, and writes nothing"},
    (11, LAUNCHER): {("short write",): "it makes durable what it is told of, and writes into no file"},
    (11, SUPERVISOR): {("ENOSPC", "EIO", "short write"): _SENDS},
    (13, LAUNCHER): {("short write",): _NO_FILE},
}
"""By row and actor: the faults that nothing of what it does there can meet with."""

ABSENT: dict[tuple[int, str], str] = {
    (1, SUPERVISOR): "it is forked in row 3",
    (2, SUPERVISOR): "it is forked in row 3, which may overlap the end of this one",
    (13, SUPERVISOR): "it has left: nobody removes a folder whose lock is held",
}
"""Victims that nobody can kill in a row, for they are not there: its cells are played without them."""


def why_empty(row: int, victims: tuple[str, ...], fault: str) -> str:
    """Why there is no cell for that; empty if there has to be one."""
    if fault == "SIGKILL":
        return ""
    able = [role for role in victims if role in ACTORS[row] and not _cannot(row, role, fault)]
    if able:
        return ""
    reasons = [_cannot(row, role, fault) for role in victims if role in ACTORS[row]]
    return "; ".join(reasons) or "they take no part in the row"


def _cannot(row: int, role: str, fault: str) -> str:
    return next((why for faults, why in CANNOT_FAIL.get((row, role), {}).items() if fault in faults), "")
