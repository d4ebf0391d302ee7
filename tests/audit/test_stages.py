"""Progress of an audit: every long stage tells how far it is, and what Ctrl-C leaves."""

import pytest

from metastable.audit import audit as module
from metastable.audit import collect as collecting
from metastable.audit.case import AuditCase
from metastable.audit.collect import collect
from metastable.audit.generators.generator import Prefix
from metastable.core import progress
from tests.audit.small import write_config
from tests.audit.test_cli_audit import ask


def test_a_single_batch_of_a_prefix_tells_how_far_writing_is(memorised, monkeypatch):
    """16 items in one batch, 12 tokens each after a prefix of 4: a step for each token."""
    split, fitted = memorised
    shares = []

    class Recorded(progress.Bar):
        def update(self, share):
            shares.append(share)

    monkeypatch.setattr(collecting, "Bar", Recorded)
    collect(fitted.target, split.items, [Prefix(4)], batch=16)
    assert shares == sorted(shares) and shares[-1] == 1.0
    writing = [share for share in shares if 0.5 <= share < 1.0]
    assert writing == pytest.approx([0.5, *(0.5 + 0.5 * k / 12 for k in range(12))])


def test_every_stage_prints_lines_with_the_time_left_off_a_terminal(tmp_path, monkeypatch):
    """Lines of all stages at once; none of them goes to stdout."""
    monkeypatch.setattr(progress, "HALF_MINUTE", 0.0)
    done = ask("run", write_config(tmp_path, steps=12), "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.exception
    assert done.stdout.startswith("{") and " left" not in done.stdout
    lines = done.stderr.splitlines()
    stages = "training", "eliciting", "nothing to find, shuffled texts", "comparing the sets"
    for stage in (*stages, "re-splits"):
        own = [line for line in lines if line.startswith(f"{stage}: ")]
        assert any(line.endswith(" left") for line in own), stage


@pytest.mark.parametrize(
    ("owner", "name", "words"),
    [
        (AuditCase, "compare_sets", "comparing the sets: 64 of 64 rows are done"),
        (module, "judge", "judging: 2 of 2 tables are done"),
    ],
)
def test_ctrl_c_after_the_rows_says_what_is_kept(tmp_path, monkeypatch, owner, name, words):
    config = write_config(tmp_path, steps=2)
    config.write_text(config.read_text().split('[[generators]]\nkind = "soft"')[0])

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopped)
        cut = ask("run", config, "--out", tmp_path / "run")
    assert cut.exit_code == 130
    line = f"metastable: interrupted ({words}): run the same command again to go on\n"
    assert cut.stderr == line
    table = (tmp_path / "run" / "items.csv").read_bytes()
    assert ask("run", config, "--out", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "items.csv").read_bytes() == table
