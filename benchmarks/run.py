"""Speed against peers, measured in one process: `python benchmarks/run.py NAME [--json]`.

Tables and figures go to benchmarks/results. Compare ratios, not seconds: other work on the machine
slows all candidates alike.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RESULTS = ROOT / "benchmarks" / "results"
NAMES = "circle sphere dense crossover ensemble memory gpu gaussian density explorer small".split()
NAMES += "dimensions low_rank first_answer".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a minute in all")
    arguments = parser.parse_args()
    report = {}
    for name in NAMES if arguments.name == "all" else [arguments.name]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        report[name] = run(name, arguments.quick)
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    for name, result in report.items():
        about = f"{result['machine']}, load {result['load']:.1f}, {result['seconds']:.0f} s"
        print(f"\n{name} ({about})")
        for line in result.get("summary", []):
            print("  " + line)


def run(name: str, quick: bool = False) -> dict:
    from benchmarks import timing

    began = time.perf_counter()
    bench = import_module(f"benchmarks.{name}")
    result = bench.measure(quick)
    result["machine"] = result.get("machine") or timing.machine()
    result["seconds"] = time.perf_counter() - began
    result["load"] = os.getloadavg()[1]  # jobs that wanted the cores meanwhile, this one included
    if not quick and not result.get("kept"):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        if hasattr(bench, "draw"):
            bench.draw(result, RESULTS / f"{name}.png")
    return result


if __name__ == "__main__":
    main()
