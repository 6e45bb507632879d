"""The program: `spurd`, or `python -m spurproc.agent`."""

from __future__ import annotations

from spurproc.command_line.entry import Main, start

__all__ = ["run"]


def run() -> None:
    """Call the command line and exit."""
    start("spurd", "agent", _main)


def _main() -> Main:
    from spurproc.agent.cli.main import main  # noqa: PLC0415 - once somebody is there to say what is missing

    return main


if __name__ == "__main__":
    run()
