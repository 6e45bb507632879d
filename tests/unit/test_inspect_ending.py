"""An end is told of what has ended: a process that cannot be seen may run."""

from __future__ import annotations

from spurproc.inspect import ending, show
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.held import open_process
from spurproc.inspect.target import PidTarget
from tests.descriptors import descriptors_left
from tests.relatives import Blocked
from tests.rungs import without


def test_what_cannot_be_seen_has_not_ended() -> None:
    """No pidfd to poll, and no descriptor to look into /proc with: alive, and unknown."""
    with without("pidfd_open"), Blocked() as child, open_process(PidTarget(child.pid)) as held:
        with descriptors_left(0):
            answer = ending._answer(ending.Subject({}, []), ending.end_of_process(held))
            fields, rows = show._end(ending.end_of_process(held))
        seen, _ = show._end(ending.end_of_process(held))
    assert (answer.exit_code, answer.fields["state"], answer.fields["exit"]) == (ExitCode.STILL_RUNNING, "out-of-sight", None)
    assert answer.fields["reason"] == "it cannot be told from here whether it still runs"
    assert fields == {"state": "out-of-sight", "exit": None}
    assert rows == [("exit", "not known yet: it cannot be told from here whether it still runs")]
    assert seen == {"state": "running", "exit": None}
