"""The program `metastable`, also as `python -m metastable`.

As small as can be, so that Ctrl-C is answered from the first moment on.
"""

from metastable.core.interrupts import answer_interrupts

__all__ = ["main"]


def main() -> None:
    """Load the command line and run it; see `metastable.cli.main`."""
    answer_interrupts()
    from metastable.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
