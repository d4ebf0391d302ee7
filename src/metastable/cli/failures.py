"""How a command ends that did not finish: one line for people, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from metastable.core.folder import FULL, DiskFull
from metastable.core.interrupts import line_for, option
from metastable.core.recognise import advise

# The system's answers to a name, a path or a port that was given: bad input, not a failure.
REFUSED = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS, errno.EADDRINUSE, errno.EADDRNOTAVAIL),
)
# Options whose values are places, but not the one that a command is about.
PLACES = ("--out", "--text", "--plugin", "--model", "--reference", "--versions", "--set")
LONGEST_LINE = 600  # characters
LONGEST = 300  # characters of a message that was not written for people


class Escaped(Exception):
    """Carries, as its cause, an exception that click would take for something else."""


class Commands(TyperGroup):
    """The commands, with EOFError and KeyboardInterrupt handed to the caller as `Escaped`.

    Click ends on both by itself: silently on Ctrl-C, and as if interrupted on an empty file.
    """

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with _escaping():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _escaping():
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, so that a closed pipe is met by click and not at exit
            return result


@contextlib.contextmanager
def _escaping() -> Iterator[None]:
    try:
        yield
    except (EOFError, KeyboardInterrupt) as error:
        raise Escaped from error


def refuse_unwritable(arguments: Sequence[str]) -> None:
    """Refuse arguments that are no text: they could be written into no file, and into no JSON."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"arguments must be text in UTF-8; got {argument!a}: choose another name."
            ) from None


def describe_error(error: BaseException, arguments: Sequence[str]) -> tuple[str, int]:
    """The line that tells of an exception, and the exit code.

    1: could not be computed or written; 2: bad input; 130: interrupted. `arguments` are those of
    the command line, without the program. Bad input that another command would take is sent there.
    """
    line, code = _describe(error, arguments)
    hint = _hint(arguments) if code == 2 else None
    return (line if hint is None or hint in line else _line(f"{line} {hint}", ""), code)


def _hint(arguments: Sequence[str]) -> str | None:
    """Where a file or folder belongs that this command does not take; else None."""
    words = [
        word
        for before, word in itertools.pairwise(("", *arguments))
        if not word.startswith("-") and before not in PLACES
    ]
    if not words:
        return None
    two = words[0] in ("audit", "gaussian") or words[:2] == ["sweep", "status"]
    command, places = " ".join(words[: 1 + two]), words[1 + two :]
    return next((hint for word in places if (hint := advise(word, command))), None)


def _describe(error: BaseException, arguments: Sequence[str]) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return line_for(arguments), 130
    format_message = getattr(error, "format_message", None)  # click's complaints about options
    if format_message is not None:
        text = format_message()
        return _line(text + _received(text, arguments)), 2
    if isinstance(error, DiskFull):
        return _line(str(error)), 1
    if isinstance(error, OSError) and error.errno in FULL:
        return _line(_full(error, arguments)), 1
    if isinstance(error, OSError) and error.errno in REFUSED:
        where = "" if error.filename is None or _is_own(error) else f": {error.filename}"
        return _line(f"{error.strerror}{where}"), 2
    if isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno is None):
        return _line(str(error) or type(error).__name__), 2
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    kind = type(error).__name__ + (f": {text}" if text else "")
    return _line(f"could not be computed: {kind}; --debug shows where"), 1


@contextlib.contextmanager
def warnings_on_one_line(arguments: Sequence[str]) -> Iterator[None]:
    """Show Python's warnings as one line each, without NumPy's about floating point.

    Those name a line of our source, never the argument at fault: what overflowed is told by the
    outcome of a run, a verdict or an error. With --debug or `python -W` all is as Python does it.
    """
    if "--debug" in arguments or sys.warnoptions:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.showwarning = lambda message, *_, **__: print(
            _line(f"warning: {message}"), file=sys.stderr
        )
        yield


def _received(message: str, arguments: Sequence[str]) -> str:
    """The value that stood behind the option a parser complains about."""
    for word, value in itertools.pairwise(arguments):
        if word.startswith("--") and f"'{word}'" in message:
            return f"; got {value!r}."
    return ""


def _full(error: OSError, arguments: Sequence[str]) -> str:
    if _is_own(error):
        return str(error.strerror)
    where = error.filename or option("--out", arguments) or "the output"
    return (
        f"{where} cannot be written ({error.strerror}): make room, then run the same command again."
    )


def _is_own(error: OSError) -> bool:
    """Whether the sentence is one of ours, which names the file, and not the system's."""
    return error.errno is not None and error.strerror != os.strerror(error.errno)


def _line(message: str, head: str = "metastable: ") -> str:
    """One line of at most 600 characters; of a longer message the middle is left out."""
    message = message.split("\n---")[0]  # JAX appends a note on its own frames
    text = head + " ".join(message.split())
    if len(text) <= LONGEST_LINE:
        return text
    return f"{text[: LONGEST_LINE - 200]} … {text[-190:]}"
