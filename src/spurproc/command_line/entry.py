"""How a program begins: nothing that may be missing is imported before somebody is there to say so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

__all__ = ["start"]

Main = Callable[[Sequence[str]], int]


def start(program: str, extra: str, load: Callable[[], Main]) -> None:
    """Call what `load` imports with the arguments of this process, and exit as it says.

    What can go wrong before there is a frame to say so is said here, in one line; `extra` is what to install.
    """
    try:
        code = load()(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "spurproc":
            raise
        _say(f"{program}: the package {error.name!r} is missing: pip install 'spurproc[{extra}]'")
        code = 5
    except (ImportError, OSError, MemoryError) as error:  # no room for what is to be loaded: descriptors, memory
        _say(f"{program}: cannot start: {str(error) or type(error).__name__}")
        code = 1
    sys.exit(code)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - there is no frame yet
