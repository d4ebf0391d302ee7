"""Build wheel and sdist, check both, and use the wheel as a stranger would.

    python .ci/release.py                     # with the Python that runs this
    python .ci/release.py --python python3.13 --python python3.14
    python .ci/release.py --wheel dist/metastable-0.2.0.tar.gz   # a wheel or sdist; builds nothing
    python .ci/release.py --lowest            # with the oldest releases that pyproject.toml allows

For each interpreter a new environment gets the wheel alone, without any extra. The README's first
block, warnings being errors, must end in verdicts without a disagreement; the program must say its
version, find the machine healthy and leave the page of a run. Prints one JSON object: seconds,
versions of all that was installed, verdicts. docs/release.md keeps what came out.
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


def try_out(interpreter: str, file: Path, folder: Path, lowest: bool) -> dict[str, object]:
    """Seconds from nothing to the first verdict, and what came out."""
    started = time.perf_counter()
    run(interpreter, "-m", "venv", folder)
    python, program = folder / "bin" / "python", folder / "bin" / "metastable"
    if lowest:
        run(python, "-m", "pip", "install", "-q", "uv")
        oldest = ("--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml")
        run(python, "-m", "uv", "pip", "install", "-q", "--python", python, *oldest)
    run(python, "-m", "pip", "install", "-q", file)
    installed = time.perf_counter()
    # Outside the repository, so that nothing is found but what was installed.
    verdicts = json.loads(run(python, "-W", "error", "-c", SMOKE, cwd=folder))
    ended = time.perf_counter()
    said = run(program, "--version", cwd=folder).strip()
    health = json.loads(run(program, "doctor", "--json", cwd=folder))
    run(python, "-m", "metastable", "run", "--beta", 9, "--out", "a", cwd=folder)
    page = (folder / "a" / "report.html").stat().st_size
    packages = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
    there = {name for name, extra in health["extras"].items() if extra["installed"]} - {"chromium"}
    if verdicts["disagree"] or not verdicts["agree"] or not health["healthy"] or there:
        words = f"{verdicts}, healthy: {health['healthy']}, extras: {sorted(there)}"
        raise SystemExit(f"{interpreter}: {words}")
    return {
        "said": said,
        "python": run(python, "-c", "import platform; print(platform.python_version())").strip(),
        "install_seconds": round(installed - started, 1),
        "first_verdict_seconds": round(ended - started, 1),
        "page_bytes": page,
        **verdicts,
        "versions": {package["name"]: package["version"] for package in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="an interpreter to try the wheel with")
    parser.add_argument("--wheel", type=Path, help="try this wheel or sdist, build none")
    parser.add_argument("--lowest", action="store_true", help="with the oldest releases allowed")
    asked = parser.parse_args()
    names = asked.python or [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        files = (asked.wheel.resolve(),) if asked.wheel else build(Path(folder))
        tried = {
            name: try_out(name, files[0], Path(folder) / str(number), asked.lowest)
            for number, name in enumerate(names)
        }
    sizes = {file.name: file.stat().st_size for file in files}
    print(json.dumps({"files": sizes, "python": tried}, indent=1))


if __name__ == "__main__":
    main()
