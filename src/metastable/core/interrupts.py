"""Ctrl-C answered by one line that says what was written and how to go on."""

# Imported before anything else of the program: the standard library alone, and little of it.
from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

ABANDONED = "abandoned by Ctrl-C"  # threads of this name may still compute when a command ends

WRITERS = ("report", "reproduce", "explore")  # commands that may write without --out


def interruption(out: str | os.PathLike[str] | None) -> str:
    """The sentence for a command that Ctrl-C ended, given its --out folder or None."""
    if out is not None and os.path.isdir(out) and os.listdir(out):
        return f"interrupted; {out} is unfinished: run the same command again to go on."
    return "interrupted; nothing was written."


def option(name: str, arguments: Sequence[str]) -> str | None:
    """The value of an option as it stands on the command line; None where it is not given."""
    for k, word in enumerate(arguments):
        if word == name:
            return arguments[k + 1] if k + 1 < len(arguments) else None
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None


def line_for(arguments: Sequence[str]) -> str:
    """The whole line for a command line, given without the program's name."""
    out = option("--out", arguments)
    if out is None and arguments and arguments[0] in WRITERS:
        return "metastable: interrupted."
    return f"metastable: {interruption(out)}"


def _running(frame: FrameType | None) -> Iterator[CodeType]:
    """The code of a frame and of its callers."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """A handler that raises KeyboardInterrupt as Python's own, but never where it would be lost.

    The interpreter swallows exceptions of finalizers and of callbacks of the garbage collector,
    which JAX has; from those the signal is sent again a moment later.
    """
    if any(code.co_name in ("_xla_gc_callback", "__del__") for code in _running(frame)):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        return
    signal.default_int_handler(number, frame)


def answer_interrupts() -> None:
    """Let Ctrl-C end the process at once while a module is being imported.

    Elsewhere it raises KeyboardInterrupt as ever. Inside an import, extension modules such as
    NumPy's do not survive that exception: they crash, hang, or fail with an error of their own.
    What is on the disk is then what a kill would leave, from which every command goes on.
    Does nothing where SIGINT is ignored or answered by someone else.
    """

    def answer(number: int, frame: FrameType | None) -> None:
        if any(code.co_filename.startswith("<frozen importlib") for code in _running(frame)):
            os.write(2, f"{line_for(sys.argv[1:])}\n".encode(errors="replace"))
            os._exit(130)
        raise_interrupt(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, answer)


def interruptible(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """`call(*arguments, **options)` in a thread that is waited for: Ctrl-C is heard meanwhile.

    Compiling and compiled calls keep Ctrl-C waiting until they end; here it raises
    KeyboardInterrupt within half a second and leaves the thread, named ABANDONED, behind.
    """
    answer: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(call(*arguments, **options))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name=ABANDONED, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.5)
    if failure:
        raise failure[0]
    return answer[0]
