"""Reading a model: half precision to the bit, many prompts at once, the cost of an inspection.

    python benchmarks/models.py [--only half prompts inspect] [--fast] [--models FOLDER ...]
                                [--skip NAME ...] [--out benchmarks/results/models.json]

`half` and `prompts` use a GPU where torch sees one, a few minutes on a CPU; `inspect` takes CPU
seconds of fresh processes. Weights that are not installed are left out; `--models` names folders
to read besides. With `--out`, parts and machines measured before stay in the file.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import timing  # noqa: E402
from metastable.models.capture import capture  # noqa: E402
from metastable.models.folder import _find, load  # noqa: E402
from metastable.models.pretrained import NAMES, locate, messages  # noqa: E402
from metastable.models.prompts import SmilesTokenizer, read_prompt  # noqa: E402

SHAPES: dict[str, dict[str, int]] = {  # of real size, weights drawn
    "llama": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "intermediate_size": 2048,
    },
    "gpt2": {},  # 12 layers, d = 768
}
REACTIONS = ROOT / "examples" / "reactions.txt"
INSPECTED = ("rxnmapper", "minilm", "smollm2")
DEPTHS = {"rxnmapper": 48}  # its one layer is applied so often
TARGET = 10.0  # CPU seconds of an inspection beyond loading and forward passes
ROUNDS = 3
Prompts = list[list[int]]


# half: transformers' own states in bfloat16, bit for bit, and what half precision costs.


def half(fast: bool, folders: list[str], skip: list[str]) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, length = (8, 16) if fast else (32, 128 if device.type == "cuda" else 16)
    found = {}
    for name, whole, stream in sources(folders, skip):
        prompts = {"equal": cut(stream, [length] * rows)}
        lengths = np.random.default_rng(1).integers(1, 9, rows) * length // 8
        prompts["mixed"] = cut(stream, lengths.tolist())
        found[name] = halved(name, whole.to(device), prompts)
    return {"prompts": rows, "tokens": length, "models": found}


def sources(folders: list[str], skip: list[str]) -> Iterator[tuple[str, Any, list[int]]]:
    """Models in float32, each with a long row of ids."""
    from transformers import AutoConfig, AutoModel

    for kind in [kind for kind in SHAPES if kind not in skip]:
        config = AutoConfig.for_model(kind, **SHAPES[kind])
        torch.manual_seed(0)
        model = AutoModel.from_config(config, dtype=torch.float32)
        ids = np.random.default_rng(0).integers(config.vocab_size, size=4096)
        yield f"{kind}-shaped, random", model, ids.tolist()
    for name in [*installed(skip), *folders]:
        network = load(name)
        told = name if name in NAMES else Path(name).name
        config = copy.deepcopy(network.config)
        # A model read from GGUF remembers a quantisation that its float32 weights no longer have.
        config.__dict__.pop("quantization_config", None)
        model = AutoModel.from_config(config, dtype=torch.float32)
        model.load_state_dict(network.model.state_dict())
        yield f"{told}, trained", model, reading(network)


def installed(skip: list[str]) -> list[str]:
    names = []
    for name in NAMES:
        try:
            locate(name)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
        else:
            names += [name] if name not in skip else []
    return names


def reading(network: Any) -> list[int]:
    """Ids of reactions, or of an English text."""
    tokenizer = network.tokenizer
    if isinstance(tokenizer, SmilesTokenizer):
        return [i for line in REACTIONS.read_text().split() for i in tokenizer.encode(line)]
    return tokenizer(english(), add_special_tokens=False, verbose=False)["input_ids"][:4096]


def english() -> str:
    try:
        return messages()[-1].read_text(encoding="utf-8")
    except (ValueError, IndexError):
        return (ROOT / "README.md").read_text(encoding="utf-8")


def cut(stream: list[int], lengths: list[int]) -> Prompts:
    ends = np.cumsum([max(2, length) for length in lengths]).tolist()
    whole = np.resize(stream, ends[-1])
    return [part.tolist() for part in np.split(whole, ends[:-1])]


def halved(name: str, whole: Any, prompts: dict[str, Prompts]) -> dict[str, Any]:
    """A user's model in bfloat16, and one in float32 that is asked to be read in bfloat16."""
    own = in_bfloat16(whole, "sdpa")  # as a user has it, in training mode and with a hook
    own.train().register_forward_hook(lambda *_: None)
    peer = in_bfloat16(whole, "eager").eval()
    before = fingerprint(own), fingerprint(whole)
    found: dict[str, Any] = {}
    for batch, rows in prompts.items():
        states, last = transformers_states(peer, rows)
        halves = capture(own, rows, sphere=False)
        normed = capture(own, rows, sphere=False, final_norm=True)
        asked = capture(whole, rows, dtype="bfloat16", sphere=False)
        found[f"{batch}, own"] = compare(halves, normed, states, last)
        found[f"{batch}, asked"] = compare(asked, None, states, last)
        if batch == "equal":
            exact = capture(whole, rows, dtype="float32", sphere=False)
            found["deviation"] = deviation(halves, exact)
    after = fingerprint(own), fingerprint(whole)
    kinds = zip(("bfloat16", "float32"), before, after, strict=True)
    found["unchanged"] = {k: {what: a[what] == b[what] for what in a} for k, a, b in kinds}
    tell_half(name, found)
    return found


def in_bfloat16(whole: Any, attention: str) -> Any:
    """The same weights in bfloat16, rotary frequencies as transformers makes them."""
    from transformers import AutoModel

    config = copy.deepcopy(whole.config)
    model = AutoModel.from_config(config, dtype=torch.bfloat16, attn_implementation=attention)
    model.load_state_dict(whole.state_dict())
    return model.to(next(whole.parameters()).device)


@torch.no_grad()
def transformers_states(peer: Any, rows: Prompts) -> tuple[list[list[Any]], list[Any]]:
    """Its hidden states of every prompt, and the last before the final norm, by its own hook.

    Prompts of one length are one batch, as in `capture`; another batch is another sum.
    """
    device = next(peer.parameters()).device
    norm = next((getattr(peer, name) for name in ("norm", "ln_f") if hasattr(peer, name)), None)
    kept: list[torch.Tensor] = []
    hook = norm and norm.register_forward_pre_hook(lambda module, args: kept.append(args[0]))
    states: list[list[Any]] = [[] for _ in rows]
    last: list[Any] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
    for _, group in itertools.groupby(order, lambda k: len(rows[k])):
        batch = list(group)
        kept.clear()
        ids = torch.tensor([rows[k] for k in batch], device=device)
        out = peer(ids, output_hidden_states=True, use_cache=False).hidden_states
        arrays = [state.float().cpu().numpy() for state in out]
        before = kept[0].float().cpu().numpy() if kept else arrays[-1]
        for row, k in enumerate(batch):
            states[k], last[k] = [array[row] for array in arrays], before[row]
    if hook:
        hook.remove()
    return states, last


def compare(
    runs: list[Any], normed: list[Any] | None, states: list[list[Any]], last: list[Any]
) -> dict[str, Any]:
    """How many states are transformers' bit for bit, and the largest difference of a number."""
    pairs = []
    for k, run in enumerate(runs):
        mine = [frame.points for frame in run.frames]
        pairs += zip(mine, [*states[k][:-1], last[k]], strict=True)
        if normed is not None:
            pairs.append((normed[k].frames[-1].points, states[k][-1]))
    gaps = [float(np.abs(np.asarray(a) - b).max()) for a, b in pairs]
    return {"states": len(gaps), "equal": gaps.count(0.0), "largest_difference": max(gaps)}


def deviation(halves: list[Any], wholes: list[Any]) -> dict[str, list[float]]:
    """‖x̃ − x‖/‖x‖ of tokens after each layer, and what it does to the mean cosine of a prompt."""
    found: dict[str, list[float]] = {"median": [], "largest": [], "mean_cosine": []}
    for k in range(len(wholes[0].frames)):
        pairs = [
            (np.asarray(a.frames[k].points), np.asarray(b.frames[k].points))
            for a, b in zip(halves, wholes, strict=True)
        ]
        norm = lambda x: np.linalg.norm(x, axis=1)
        apart = np.concatenate([norm(a - b) / norm(b) for a, b in pairs])
        found["median"].append(float(np.median(apart)))
        found["largest"].append(float(apart.max()))
        found["mean_cosine"].append(max(abs(mean_cosine(a) - mean_cosine(b)) for a, b in pairs))
    return found


def mean_cosine(x: np.ndarray) -> float:
    n = len(x)
    total = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(0)
    return float((total @ total - n) / (n * (n - 1)))


def fingerprint(model: Any) -> dict[str, Any]:
    """Everything about a model that looking at it could change."""
    tables = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_state_dict_hooks")
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.detach().reshape(-1).view(torch.uint8).cpu().numpy().tobytes())
    return {
        "config": json.dumps(model.config.to_dict(), default=str, sort_keys=True),
        "attention": model.config._attn_implementation,
        "hooks": [[len(getattr(m, table)) for table in tables] for m in model.modules()],
        "weights": digest.hexdigest(),
        "places": [tensor.data_ptr() for tensor in model.state_dict().values()],
        "training": [module.training for module in model.modules()],
        "dtypes": [str(t.dtype) for t in itertools.chain(model.parameters(), model.buffers())],
        "devices": [str(t.device) for t in itertools.chain(model.parameters(), model.buffers())],
    }


def tell_half(name: str, found: dict[str, Any]) -> None:
    print(f"\n{name}")
    for way, row in found.items():
        if way not in ("deviation", "unchanged"):
            print(f"  {way:14} {row['equal']} of {row['states']} states equal to the bit")
    changed = [f"{k}: {w}" for k, same in found["unchanged"].items() for w in same if not same[w]]
    print(f"  models given: {', '.join(changed) if changed else 'unchanged'}")
    print(f"  {'layer':>5} {'median':>9} {'largest':>9} {'mean cosine':>12}")
    for k, row in enumerate(zip(*found["deviation"].values(), strict=True)):
        print(f"  {k:5} {row[0]:9.2g} {row[1]:9.2g} {row[2]:12.2g}", flush=True)


# prompts: a list against a loop.


def prompts(fast: bool, folders: list[str], skip: list[str]) -> dict[str, Any]:
    rows, length = (8, 32) if fast else (64, 128)
    places: dict[str, tuple[str, ...]] = {"cpu": ("float32",)}
    if torch.cuda.is_available():
        places["cuda"] = ("float32", "bfloat16")
    found: dict[str, Any] = {"prompts": rows, "tokens": length, "models": {}}
    for name, model, stream in itertools.islice(sources([], [*NAMES]), len(SHAPES)):
        batch = cut(stream, [length] * rows)
        for place, kinds in places.items():
            for kind in kinds:
                network = load(model, device=place, dtype=kind)
                seconds = timing.race(
                    {
                        "list": lambda n=network, b=batch: drop(capture(n, b, progress=False)),
                        "loop": lambda n=network, b=batch: drop(
                            [capture(n, p, progress=False) for p in b]
                        ),
                        "transformers": lambda n=network, b=batch: bare_states(n.model, b),
                    },
                    rounds=ROUNDS,
                    budget=10.0,
                )
                rates = {key: rows * length / value for key, value in seconds.items()}
                ratio = seconds["loop"] / seconds["list"]
                found["models"][f"{name}, {place}, {kind}"] = {
                    "seconds": seconds,
                    "tokens_per_second": rates,
                    "loop_over_list": ratio,
                    "list_over_transformers": seconds["list"] / seconds["transformers"],
                }
                told = ", ".join(f"{key} {rate:,.0f}" for key, rate in rates.items())
                print(
                    f"{name}, {place}, {kind}: {told} tokens/s; loop/list {ratio:.2f}", flush=True
                )
    return found


def drop(result: Any) -> None:
    """Timed with its making, not kept."""


@torch.no_grad()
def bare_states(model: Any, rows: Prompts) -> None:
    """The states alone, as float32 arrays, in the batches that `capture` makes."""
    size = max(1, 4096 // len(rows[0]))
    device = next(model.parameters()).device
    for begin in range(0, len(rows), size):
        ids = torch.tensor(rows[begin : begin + size], device=device)
        states = model(ids, output_hidden_states=True, use_cache=False).hidden_states
        drop([state.float().cpu().numpy() for state in states])


# inspect: CPU seconds beside a process that only loads the model and runs it as often.


def inspect(fast: bool, folders: list[str], skip: list[str]) -> dict[str, Any]:
    found = {}
    for name in [name for name in INSPECTED if name in installed(skip)]:
        network = load(name)
        if name == "rxnmapper":
            text = REACTIONS.read_text().split()[0]
        else:  # the first hundred tokens, whole words of the text
            text = beginning(network, english(), 100)
        ids = read_prompt(network, text).ids
        depth = DEPTHS.get(name)
        shapes = layer_calls(network, name, text, depth)
        layers = int(network.config.num_hidden_layers)
        passes = {shape: -(-calls // layers) for shape, calls in shapes.items()}
        told = json.dumps({"folder": str(_find(name)), "ids": list(ids), "passes": passes})
        bare = [sys.executable, str(ROOT / "benchmarks" / "bare.py"), told]
        seconds: dict[str, list[float]] = {"inspect": [], "bare": []}
        for _ in range(1 if fast else ROUNDS):
            seconds["inspect"].append(cpu_seconds(lambda n=name, t=text, d=depth: page_of(n, t, d)))
            seconds["bare"].append(cpu_seconds(lambda b=bare: finished(b)))
        middle = {key: statistics.median(values) for key, values in seconds.items()}
        row = {
            "tokens": len(ids),
            "depth": depth or layers,
            "layer_applications": sum(shapes.values()),
            "passes": passes,
            "cpu_seconds": seconds,
            "inspect": middle["inspect"],
            "bare": middle["bare"],
            "difference": middle["inspect"] - middle["bare"],
            "ratio": middle["inspect"] / middle["bare"],
        }
        found[name] = row | {"within_target": row["difference"] <= TARGET}
        print(
            f"{name}, {len(ids)} tokens, {row['layer_applications']} layer applications: "
            f"{row['inspect']:.1f} CPU s against {row['bare']:.1f}: {row['difference']:+.1f} s, "
            f"{row['ratio']:.2f} times",
            flush=True,
        )
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return {"target": TARGET, "threads": threads, "models": found}


def beginning(network: Any, text: str, tokens: int) -> str:
    """The first words of a text that give at least so many tokens."""
    words = text.split()
    for count in range(tokens // 3, len(words)):
        short = " ".join(words[:count])
        if len(read_prompt(network, short).ids) >= tokens:
            return short
    return text


def page_of(name: str, text: str, depth: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "metastable", "inspect", name, "--text", text]
        command += ["--out", f"{folder}/run", *(["--depth", str(depth)] if depth else [])]
        finished(command)
        assert (Path(folder) / "run" / "report.html").is_file()


def cpu_seconds(call: Callable[[], Any]) -> float:
    """User and system seconds of the processes a call starts and waits for."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before = used()
    call()
    return used() - before


def finished(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} failed: {done.stderr[-500:]}")


def layer_calls(network: Any, name: str, text: str, depth: int | None) -> Counter[str]:
    """How often an inspection applies a layer, by rows and tokens it is applied to."""
    from metastable import kinds
    from metastable.models.anatomy import layers_of
    from metastable.models.spec import Inspect

    kind = {type(layer) for layer in layers_of(network.model, network.anatomy())}
    calls: Counter[str] = Counter()

    def count(module: Any, args: Any, out: Any) -> None:
        if type(module) in kind:
            rows, tokens = (out[0] if isinstance(out, tuple) else out).shape[:2]
            calls[f"{rows}x{tokens}"] += 1

    tree = {"model": name, "text": text} | ({"depth": depth} if depth else {})
    hook = torch.nn.modules.module.register_module_forward_hook(count)
    try:
        kinds.run(Inspect.from_tree(tree))
    finally:
        hook.remove()
    return calls


PARTS: dict[str, Callable[..., dict[str, Any]]]
PARTS = {"half": half, "prompts": prompts, "inspect": inspect}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--fast", action="store_true", help="small batches, one round")
    parser.add_argument("--models", nargs="+", default=[], help="folders to read besides")
    parser.add_argument("--skip", nargs="+", default=[], help="names of models to leave out")
    parser.add_argument("--out", type=Path, help="put the numbers into this file")
    arguments = parser.parse_args()
    out: Path | None = arguments.out
    report: dict[str, Any] = json.loads(out.read_text()) if out and out.exists() else {}
    for part in arguments.only:
        began = time.perf_counter()
        result = PARTS[part](arguments.fast, arguments.models, arguments.skip)
        result |= {"machine": timing.machine(), "load": os.getloadavg()[1]}
        result |= {"torch": torch.__version__, "transformers": transformers.__version__}
        result["seconds"] = time.perf_counter() - began
        where = "cpu" if part == "inspect" or not torch.cuda.is_available() else "gpu"
        if where == "gpu":
            result["gpu"] = torch.cuda.get_device_name()
        report.setdefault(part, {})[where] = result
        if out:
            out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
