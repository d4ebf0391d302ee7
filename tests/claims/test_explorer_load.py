"""The explorer under strain: fifty connections that come and go."""

import pytest

from tests.explorer.churn import churn
from tests.explorer.serving import Inside

pytestmark = pytest.mark.claim


def test_fifty_connections_opened_and_dropped_for_a_minute_leave_nothing_behind():
    server = Inside(runs=2)
    try:
        churn(server, connections=50, seconds=60.0, growth=30.0)
    finally:
        server.stop()
