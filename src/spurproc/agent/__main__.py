"""The program: `spurd`, or `python -m spurproc.agent`."""

from __future__ import annotations

import sys

__all__ = ["run"]


def run() -> None:
    """Call the command line and exit. What can go wrong before there is a frame to say so is said here, in one line."""
    try:
        from spurproc.agent.cli.main import main  # noqa: PLC0415 - inside of the handlers

        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "spurproc":
            raise
        missing = f"spurd: the package {error.name!r} is missing: pip install 'spurproc[agent]'"
        print(missing, file=sys.stderr)  # noqa: T201 - there is no frame yet
        code = 5
    except (ImportError, OSError, MemoryError) as error:  # no room for what is to be loaded: descriptors, memory
        why = str(error) or type(error).__name__
        print(f"spurd: cannot start: {why}", file=sys.stderr)  # noqa: T201 - there is no frame yet
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
