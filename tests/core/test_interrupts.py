"""Ctrl-C reaches the caller: out of compiled calls, and not swallowed by finalizers."""

import os
import signal
import threading
import time

import pytest

from metastable.core.interrupts import ABANDONED, interruptible, raise_interrupt


@pytest.fixture
def handler():
    """The program's handler: Python's own would be lost in a callback of JAX's collector."""
    before = signal.signal(signal.SIGINT, raise_interrupt)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_call_that_cannot_be_stopped_is_left_behind(handler):
    end = threading.Event()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(end.wait, 30)
        assert any(thread.name == ABANDONED for thread in threading.enumerate())
    finally:
        end.set()


def test_answers_and_errors_pass_through():
    assert interruptible(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 7, 0)


class Finalized:
    done = False

    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        Finalized.done = True


def test_a_signal_inside_a_finalizer_is_heard_after_it(handler):
    with pytest.raises(KeyboardInterrupt):
        del_me = Finalized()
        del del_me  # Python's own handler would raise here, and the exception would be lost
        assert Finalized.done
        time.sleep(10)
