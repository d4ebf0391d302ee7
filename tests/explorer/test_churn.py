"""The short form of the claim that connections which come and go leave nothing behind."""

from tests.explorer.churn import churn


def test_connections_that_vanish_leave_nothing_behind(inside):
    assert not churn(inside, connections=8, seconds=2.0, growth=40.0)
