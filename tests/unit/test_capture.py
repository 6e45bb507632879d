"""The pipes of a captured job."""

from __future__ import annotations

import os
import subprocess

from spurproc.core.command.capture import Capture


def test_draining_ends_though_another_writes_for_ever() -> None:
    """Somebody outside of the tree may have got hold of the pipe: what it held at the end is taken, and no more."""
    pipes = Capture()
    theirs, gathered = pipes.open_output()
    writer = subprocess.Popen(["yes"], stdout=theirs)
    pipes.close_theirs()
    try:
        pipes.drain()
        assert len(gathered) <= 1 << 20
    finally:
        writer.kill()
        writer.wait()
        pipes.close()


def test_draining_waits_for_nobody() -> None:
    """Somebody outside of the tree holds the pipe and says nothing: there is neither anything to read nor an end of file."""
    pipes = Capture()
    theirs, gathered = pipes.open_output()
    held = os.dup(theirs)
    pipes.close_theirs()
    try:
        pipes.drain()
        assert not gathered
    finally:
        os.close(held)
        pipes.close()
