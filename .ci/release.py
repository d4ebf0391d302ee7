"""Build wheel and sdist, check both, and use the wheel as a stranger would.

    python .ci/release.py                     # with the Python that runs this
    python .ci/release.py --python python3.13 --python python3.14

For each interpreter a new environment gets the wheel alone, then the README's first block must end
in verdicts without a disagreement. Prints one JSON object: seconds, versions, verdicts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMOKE = """
import json, metastable as ms
tokens = ms.uniform(tokens=1000, dim=2, seed=0)
field = ms.SelfAttention(beta=9.0)
ms.predict(field, dim=2, tokens=1000)
rows = ms.compare(ms.flow(tokens, field, horizon=40.0)).rows
count = lambda word: sum(row.verdict == word for row in rows)
print(json.dumps({"agree": count("agree"), "disagree": count("disagree")}))
"""


def run(*words: object, **more: object) -> str:
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist in a new `dist/`, checked."""
    tools = folder / "tools"
    run(sys.executable, "-m", "venv", tools)
    python = tools / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "build", "twine", "check-wheel-contents")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(python, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    run(python, "-m", "twine", "check", "--strict", wheel, sdist)
    run(tools / "bin" / "check-wheel-contents", wheel)
    return wheel, sdist


def try_out(interpreter: str, wheel: Path, folder: Path) -> dict[str, object]:
    """Seconds from nothing to the first verdict, and what came out."""
    started = time.perf_counter()
    place = folder / Path(interpreter).name
    run(interpreter, "-m", "venv", place)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel)
    installed = time.perf_counter()
    # Outside the repository, so that nothing is found but what was installed.
    verdicts = json.loads(run(python, "-W", "error", "-c", SMOKE, cwd=folder))
    ended = time.perf_counter()
    program = place / "bin" / "metastable"
    health = json.loads(run(program, "doctor", "--json", cwd=folder))
    if verdicts["disagree"] or not verdicts["agree"] or not health["healthy"]:
        raise SystemExit(f"{interpreter}: {verdicts}, healthy: {health['healthy']}")
    return {
        "versions": health["versions"],
        "install_seconds": round(installed - started, 1),
        "first_verdict_seconds": round(ended - started, 1),
        **verdicts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="an interpreter to try the wheel with")
    names = parser.parse_args().python or [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        wheel, sdist = build(Path(folder))
        tried = {name: try_out(name, wheel, Path(folder)) for name in names}
    sizes = {file.name: file.stat().st_size for file in (wheel, sdist)}
    print(json.dumps({"files": sizes, "python": tried}, indent=1))


if __name__ == "__main__":
    main()
