"""Sweeps against kill −9, dying workers, full disks and read-only folders, in full."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metastable.sweep import execute
from metastable.sweep.spec import Sweep
from metastable.sweep.status import status
from tests.sweep.driver import pretend
from tests.sweep.stores import SMALL, contents
from tests.sweep.test_execute import _lines, _marked, begin

pytestmark = pytest.mark.claim
ROOT = Path(__file__).parents[2]


def test_killed_at_twenty_random_instants_the_store_is_the_same(tmp_path):
    """200 real cells; whatever was marked done is never computed again."""
    spec = tmp_path / "spec.toml"
    spec.write_text(SMALL.format(count=25, repetitions=4))
    began = time.monotonic()
    undisturbed = begin(spec, tmp_path / "whole", tmp_path / "r0", "real")
    while not _lines(tmp_path / "r0"):
        time.sleep(0.005)
    startup = time.monotonic() - began
    assert "'done': 200" in undisturbed.communicate()[0]
    store, kept, growth = tmp_path / "s", set(), []
    draw = random.Random(0)
    for attempt in range(20):
        record = tmp_path / f"r{attempt + 1}"
        process = begin(spec, store, record, "real")
        if attempt % 4 == 0:
            time.sleep(draw.random() * startup)
        else:
            # Four cells are a task, and fifty tasks the sweep: all kills must find it unfinished.
            some = 4 * draw.randint(1, 3)
            while process.poll() is None and len(_lines(record)) < some:
                time.sleep(0.002)
            time.sleep(0.1 * draw.random())
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the sweep ended before its kill"
        assert not kept & _lines(record), "a cell was computed again after its done bit"
        now = _marked(store)
        assert kept <= now, "a done bit was lost"
        growth.append(len(now - kept))
        kept = now
    last = begin(spec, store, tmp_path / "last", "real")
    told = last.communicate()[0]
    assert last.returncode == 0, told
    assert not kept & _lines(tmp_path / "last")
    assert contents(store) == contents(tmp_path / "whole")
    print(f"20 kills; cells kept by each session: {growth}, by the last {200 - len(kept)}")
    assert 0 < len(kept) < 200


def test_a_dying_worker_takes_no_other_cell_with_it(tmp_path):
    code = (
        "import os\n"
        "from metastable.sweep import execute\n"
        "from tests.sweep.stores import small\n"
        "from tests.claims.test_sweep_faults import deadly\n"
        "execute.compute = deadly\n"
        f"print(execute.run_sweep(small(), {str(tmp_path / 'd')!r}, workers=2).to_dict())\n"
    )
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert "'done': 19, 'failed': 1" in done.stdout, done.stdout + done.stderr
    failures = status(tmp_path / "d")["failures"]
    assert list(failures) == ["beta=2.75, tokens=4, repetition=1"]
    assert "The worker died" in failures["beta=2.75, tokens=4, repetition=1"]["message"]


def deadly(recipe, some):
    if any(cell.index == (2, 0, 1) for cell in some):
        os.kill(os.getpid(), signal.SIGKILL)
    return pretend(recipe, some)


def in_small_disk(size, script):
    """Run a script where /mnt is a small disk that only this script sees."""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size={size} tmpfs /mnt && {script}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no private mounts here: {done.stderr.strip()}")
    return done


def test_a_full_disk_is_told_and_the_rest_is_finished_with_room(tmp_path):
    """The room check is off, so that the disk really fills up in the middle."""
    (tmp_path / "spec.toml").write_text(SMALL.format(count=100, repetitions=4))  # 1600 files
    sweep = Sweep.load(tmp_path / "spec.toml")
    code = (
        "import sys; from metastable.sweep import execute; from metastable.sweep.spec import *; "
        "from tests.sweep.driver import pretend; execute.compute = pretend; "
        "execute._check_room = lambda *_: None; "
        f"execute.run_sweep(Sweep.load('{tmp_path}/spec.toml'), '/mnt/s')"
    )
    script = f'{sys.executable} -c "{code}"; cp -r /mnt/s {tmp_path}/s'
    done = in_small_disk("2m", script)
    assert "No space left on device" in done.stderr, done.stderr
    assert "run the same command again" in done.stderr
    execute_pretending(sweep, tmp_path / "whole")
    found = status(tmp_path / "s")
    assert 0 < found["done"] < 800
    execute_pretending(sweep, tmp_path / "s")
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def execute_pretending(sweep, folder):
    kept = execute.compute
    execute.compute = pretend
    try:
        return execute.run_sweep(sweep, folder)
    finally:
        execute.compute = kept


def test_too_small_a_disk_is_refused_before_the_start(tmp_path):
    (tmp_path / "spec.toml").write_text(SMALL.format(count=400, repetitions=4))
    words = f"sweep {tmp_path}/spec.toml --out /mnt/s"
    done = in_small_disk("1m", f"{sys.executable} -m metastable.cli {words}; echo code $?")
    assert "code 2" in done.stdout and "make room" in done.stderr, done.stderr


def test_a_read_only_folder_is_told_in_one_line(tmp_path):
    (tmp_path / "spec.toml").write_text(SMALL.format(count=2, repetitions=1))
    words = f"sweep {tmp_path}/spec.toml --out /mnt/s"
    script = f"mount -o remount,ro /mnt && {sys.executable} -m metastable.cli {words}; echo code $?"
    done = in_small_disk("1m", script)
    assert "code 2" in done.stdout and "Read-only file system" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
