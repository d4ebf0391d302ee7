"""Progress off a terminal: a line every half minute, by a clock of our own."""

import io
import sys

from metastable.core.progress import Bar


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def lines(monkeypatch, moments, enabled=None, title="flow"):
    """What is printed for updates at (seconds, share)."""
    stream, clock = io.StringIO(), Clock()
    monkeypatch.setattr(sys, "stderr", stream)
    with Bar(title, enabled, clock) as bar:
        for clock.now, share in moments:
            bar.update(share)
    return stream.getvalue().splitlines()


def test_short_work_prints_nothing(monkeypatch):
    assert lines(monkeypatch, [(t, t / 30) for t in range(30)]) == []


def test_a_line_every_half_minute_with_the_time_left(monkeypatch):
    """Work that takes 600 s at an even pace: the time left is 600 − t."""
    printed = lines(monkeypatch, [(t, t / 600) for t in range(1, 601)])
    assert printed[1] == "flow: 10 %, about 9 min left"
    assert printed[3] == "flow: 20 %, about 8 min left"
    assert printed[-1] == "flow: 95 %, about 30 s left"
    assert len(printed) == 19


def test_work_done_before_does_not_count_as_fast(monkeypatch):
    """Resumed at 80 %; the last fifth takes 200 s: after 60 of them 140 s are left."""
    printed = lines(monkeypatch, [(t, 0.8 + t / 1000) for t in range(1, 201)])
    assert printed[1] == "flow: 86 %, about 2 min left"
    assert len(printed) == 6


def test_hours_are_hours(monkeypatch):
    assert lines(monkeypatch, [(360.0, 0.01)]) == ["flow: 1 %, about 9.9 h left"]


def test_disabled_is_silent(monkeypatch):
    assert lines(monkeypatch, [(t, t / 600) for t in range(1, 601)], enabled=False) == []


def test_no_share_no_guess(monkeypatch):
    assert lines(monkeypatch, [(61.0, 0.0)], title="eliciting") == ["eliciting: 0 %"]
