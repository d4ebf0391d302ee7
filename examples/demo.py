"""The main job: tokens on the circle and on the sphere, from uniform to clusters.

Theory first, then the flow, then the verdict between the two, and one HTML page about it all.
Papers: arXiv:2312.10794 (the model), arXiv:2410.23228 (the first clusters). Time: under a minute.

    python examples/demo.py [OUT]
"""

import shutil
import sys
from pathlib import Path

import metastable as ms
from metastable.flows.spec import Experiment
from metastable.report.pages.run import write_runs

# Parameters
out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo")
experiments = {
    "circle": Experiment.model_validate(
        {
            "name": "1000 tokens on the circle, β = 9",
            "measure": {"kind": "uniform", "tokens": 1000, "dim": 2, "seed": 1},
            "field": {"kind": "self_attention", "beta": 9.0},
            "flow": {"horizon": 40.0, "frames": 161},
        }
    ),
    "sphere": Experiment.model_validate(
        {
            "name": "800 tokens on the sphere, β = 9",
            "measure": {"kind": "uniform", "tokens": 800, "dim": 3, "seed": 1},
            "field": {"kind": "self_attention", "beta": 9.0},
            "flow": {"horizon": 30.0, "frames": 121},
        }
    ),
}

results = []
for name, experiment in experiments.items():
    # Theory, before anything runs
    print(f"\n{experiment.name}\n")
    field = ms.SelfAttention(beta=experiment.field.beta)
    measure = experiment.measure
    ms.predict(field, dim=measure.dim, tokens=measure.tokens).print()

    # Flow
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    result = ms.run(experiment, folder)
    print(f"\n{result}\n")

    # Verdict
    result.verdicts.print()
    results.append(result)

# Report
page = write_runs(results, out / "report.html", "Metastable: circle and sphere")
print(f"\nReport: {page}")
