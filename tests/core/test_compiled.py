"""Compiled code on disk: kept, shared by processes, mended, limited, and never in the way.

Every process here has a home and a cache of its own.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from metastable.core.compiled import CHECKSUM, PART, SUFFIX, Entries, clear, trim

# What is computed, its digest, and how many programs were compiled or read from disk.
FRAME = """
import hashlib, json
import jax.monitoring
seen = []
jax.monitoring.register_event_listener(lambda name, **_: seen.append(name))
import numpy as np
{computation}
count = lambda what: sum(name.endswith(what) for name in seen)
print(json.dumps({{
    "digest": hashlib.sha256(np.asarray(values).tobytes()).hexdigest(),
    "compiled": count("/cache_misses"), "read": count("/cache_hits"),
    "folder": jax.config.jax_compilation_cache_dir,
}}))
"""
FLOW = FRAME.format(
    computation="""
import metastable as ms
run = ms.flow(ms.uniform(tokens=8, dim=3, seed=1), ms.SelfAttention(beta=2.0), 1.0, frames=3)
values = np.stack([frame.points for frame in run.frames])
"""
)
# Loads the numerics policy and little else.
LIGHT = FRAME.format(
    computation="""
from metastable.core.numerics import jax, jnp
layer = jax.jit(lambda x: x + jax.nn.softmax(x @ x.T) @ x)
values = [layer(jnp.eye(4)), layer(jnp.ones((4, 4)))]
"""
)


def environment(folder: Path, **more: str) -> dict[str, str]:
    left_out = "JAX_COMPILATION", "JAX_PERSISTENT", "METASTABLE", "XDG_CACHE", "TF_CPP"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"HOME": str(folder), "JAX_PLATFORMS": "cpu"} | more


def begin(folder: Path, program: str = LIGHT, **more: str) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment(folder, **more), **pipes
    )


def finish(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert err == ""
    return json.loads(out)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{SUFFIX}"))


def test_a_second_process_compiles_nothing_and_gives_the_same_bits(tmp_path):
    """The oracle is a process without a cache."""
    bare = finish(begin(tmp_path, FLOW, METASTABLE_CACHE="off"))
    assert bare["folder"] is None and not any(tmp_path.iterdir())
    first, second = finish(begin(tmp_path, FLOW)), finish(begin(tmp_path, FLOW))
    assert first["compiled"] > 0 and len(entries(tmp_path)) == first["compiled"]
    # The first process may have met one of its own programs again.
    assert (second["compiled"], second["read"]) == (0, first["compiled"] + first["read"])
    assert bare["digest"] == first["digest"] == second["digest"]
    assert Path(first["folder"]).is_relative_to(tmp_path / ".cache" / "metastable" / "compiled")


def test_damaged_entries_are_made_again(tmp_path):
    """One word on stderr would fail `finish`; afterwards every entry is whole again."""
    whole = finish(begin(tmp_path))
    for number, path in enumerate(entries(tmp_path)):
        content = path.read_bytes()
        cut, garbage = content[: len(content) // 2], os.urandom(len(content))
        path.write_bytes((cut, garbage, b"")[number % 3])
    assert number >= 2
    mended = finish(begin(tmp_path))
    assert mended["digest"] == whole["digest"] and mended["compiled"] == whole["compiled"]
    for path in entries(tmp_path):
        content = path.read_bytes()
        assert hashlib.sha256(content[CHECKSUM:]).digest() == content[:CHECKSUM]


def test_eight_processes_fill_one_cache_at_once(tmp_path):
    processes = [begin(tmp_path) for _ in range(8)]
    results = [finish(process) for process in processes]
    assert len({result["digest"] for result in results}) == 1
    assert not list(tmp_path.rglob(f"{PART}*"))
    assert finish(begin(tmp_path))["compiled"] == 0


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "home").write_text("a file where a folder should be")
    blocked = finish(begin(tmp_path / "home"))
    assert blocked["folder"] is None and blocked["compiled"] == 0
    kept = finish(begin(tmp_path, METASTABLE_CACHE=str(tmp_path / "own")))
    assert Path(kept["folder"]).parent == tmp_path / "own" / "compiled"


def test_a_folder_chosen_for_jax_is_left_to_jax(tmp_path):
    """By its environment, and by its configuration after this library was loaded."""
    chosen = tmp_path / "chosen"
    assert finish(begin(tmp_path, JAX_COMPILATION_CACHE_DIR=str(chosen)))["folder"] == str(chosen)
    later = f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path / 'later')!r})\nlayer ="
    result = finish(begin(tmp_path, LIGHT.replace("layer =", later, 1)))
    assert result["folder"] == str(tmp_path / "later") and not entries(tmp_path)
    assert len(list((tmp_path / "later").glob("*-cache"))) == result["compiled"] > 0


def test_loading_says_nothing_when_jax_was_imported_first(tmp_path):
    program = "import jax, jax.numpy as jnp\njnp.ones(3).sum()\n" + LIGHT
    finish(begin(tmp_path, program))
    assert finish(begin(tmp_path, program))["read"] > 0


def test_entries_come_back_whole_or_not_at_all(tmp_path):
    kept = Entries(tmp_path / "a", tmp_path)
    assert kept.get("key") is None
    kept.put("key", b"program")
    assert kept.get("key") == b"program"
    path = tmp_path / "a" / f"key{SUFFIX}"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert kept.get("key") is None and not path.exists()


def test_the_entries_read_longest_ago_are_removed_first(tmp_path):
    """Ten entries of 132 bytes, all a day old and older; the limit holds seven of them."""
    kept = Entries(tmp_path / "a", tmp_path)
    for number in range(10):
        kept.put(f"{number}", bytes(100))
        age = 1.7e9 + number
        os.utime(tmp_path / "a" / f"{number}{SUFFIX}", (age, age))
    assert kept.get("0") is not None  # young again
    trim(tmp_path, 7 * (100 + CHECKSUM))
    left = {path.stem for path in entries(tmp_path)}
    assert left == {"0", "4", "5", "6", "7", "8", "9"}


def test_the_limit_is_kept_while_writing(tmp_path):
    kept = Entries(tmp_path / "a", tmp_path, limit=10**6)
    for number in range(100):
        kept.due = 0
        kept.put(f"{number}", bytes(50_000))
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 10**6
    assert (tmp_path / "a" / f"99{SUFFIX}").exists()
    kept.put("large", bytes(2 * 10**6))
    assert kept.get("large") is None


def test_clearing_removes_our_files_only(tmp_path):
    root = tmp_path / "compiled"
    Entries(root / "a", root).put("key", b"program")
    Entries(root / "b", root).put("key", b"program")
    (root / "b" / "thesis.tex").write_text("keep me")
    assert clear(root) == 2
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["thesis.tex"]
    assert not (root / "a").exists()


def test_doctor_tells_of_the_cache_and_clears_it(tmp_path):
    finish(begin(tmp_path))

    def doctor(*words: str) -> dict:
        command = [sys.executable, "-m", "metastable", "doctor", *words, "--json"]
        how = {"env": environment(tmp_path), "capture_output": True, "text": True}
        return json.loads(subprocess.run(command, check=True, **how).stdout)

    sizes = [path.stat().st_size for path in entries(tmp_path)]
    told = doctor()["compiled"]
    assert (told["entries"], told["bytes"]) == (len(sizes), sum(sizes)) and sizes
    assert Path(told["folder"]).is_relative_to(tmp_path)
    assert doctor("--clear-cache")["removed"] >= len(sizes)
    assert not entries(tmp_path)
