"""The program `metastable`, also as `python -m metastable`.

As small as can be, so that Ctrl-C is answered from the first moment on.
"""

import os
import sys
import threading

from metastable.core.interrupts import ABANDONED, answer_interrupts


def main() -> None:
    """Load the command line and run it; see `metastable.cli.main`."""
    answer_interrupts()
    from metastable.cli import main as command_line

    try:
        command_line()
    except SystemExit as end:
        if any(thread.name == ABANDONED for thread in threading.enumerate()):
            # A compiled call that Ctrl-C has left behind must not be waited for, nor meet the
            # end of the interpreter; everything is written.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        raise


if __name__ == "__main__":
    main()
