"""The explorer under strain: fifty connections that come and go."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.claim

STORM = """
from tests.explorer.churn import churn
from tests.explorer.serving import Inside

if __name__ == "__main__":
    server = Inside(runs=2)
    try:
        left = churn(server, connections=50, seconds=60.0, growth=30.0)
        assert not left, left
    finally:
        server.stop()
"""


def test_fifty_connections_opened_and_dropped_for_a_minute_leave_nothing_behind():
    """In a process of its own: what other tests have left in this one would be counted too."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", STORM], cwd=root, capture_output=True, text=True, timeout=300
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
