"""`tests.spurd_program`, with a wall clock that can be stepped, and a node that has more than this machine."""

from __future__ import annotations

import sys

from tests.soak import clock  # first: the agent takes its clock when it is imported
from tests.spurd_program import main

assert clock.VARIABLE

if __name__ == "__main__":
    sys.exit(main())
