"""Many audits at once: the rows of models trained over seeds and overlaps, on one accelerator.

    python experiments/audit/seeds.py OUT [quick]

All models of one size are trained together, as one stack of weights. Rows go to
OUT/rows-*.jsonl.gz, one line for each model; tests/claims/test_audit_seeds.py judges them.
About four minutes on an H200; `quick` is a trial of the same path for any machine.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as processes

from metastable.audit.case import shuffled
from metastable.audit.collect import collect
from metastable.audit.corpus import Corpus, digits, sotu
from metastable.audit.generators.generator import Prefix
from metastable.audit.generators.soft import Soft
from metastable.audit.split import Item, Split, deal
from metastable.audit.target import Reading, Target, build_model, make_alphabet
from metastable.models.own.training import Recipe

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WORKERS = 6
STEPS = 3 if "quick" in sys.argv else 100
LATE = "193*|194*|195*|196*|197*|198*|199*|20*"


def plan(quick: bool) -> list[dict]:
    """Each job: a model to be trained, and what it is asked. The most needed first."""
    jobs = []
    for seed in range(10):
        jobs.append({"what": "null", "size": "complex", "overlap": 0.0, "seed": seed})
    for overlap in (0.9, 0.5):
        jobs.append({"what": "panel", "size": "complex", "overlap": overlap, "seed": 0})
        jobs.append({"what": "panel", "size": "basic", "overlap": overlap, "seed": 0})
    for seed in range(20):
        jobs.append({"what": "small", "size": "basic", "overlap": 0.0, "seed": 100 + seed})
    for overlap in (0.1, 0.5, 0.9):
        for seed in range(20):
            jobs.append(
                {"what": "cover", "size": "complex", "overlap": overlap, "seed": 200 + seed}
            )
    jobs.append({"what": "mismatch", "size": "complex", "overlap": 0.5, "seed": 0})
    for size in ("basic", "complex"):
        for overlap in (0.9, 0.1):
            jobs.append({"what": "digits", "size": size, "overlap": overlap, "seed": 0})
    # The model beside: the same seed's background alone.
    for job in list(jobs):
        if job["what"] in ("null", "panel", "mismatch"):
            jobs.append(job | {"what": "reference", "of": job["what"], "overlap": 0.0})
    if quick:
        kinds = {}
        for job in jobs:
            kinds.setdefault((job["what"], job.get("of"), job["size"]), job)
        jobs = list(kinds.values())
    return jobs


def split_of(job: dict, corpora: dict[str, Corpus]) -> Split:
    if job["what"] == "digits":
        return deal(corpora["digits"], length=64, overlap=job["overlap"], seed=job["seed"])
    kind = job.get("of", job["what"])
    if kind == "mismatch":
        return deal(
            corpora["early"],
            overlap=job["overlap"],
            background=120,
            seed=job["seed"],
            control=corpora["late"],
        )
    return deal(corpora["sotu"], overlap=job["overlap"], seed=job["seed"])


def train_stack(size: str, alphabet, cases: list[tuple[int, Split]], recipe: Recipe) -> list[dict]:
    """Weights of models trained side by side: one Adam, one loss that is a sum, one clip each."""
    models = [build_model("transformer", size, alphabet.size, seed) for seed, _ in cases]
    tasks = []
    for _, split in cases:
        ids, _ = alphabet.rows([before + text for before, text in split.training])
        opening = torch.full((len(ids), 1), alphabet.opening)
        tasks.append(Reading(torch.cat([opening, ids], 1), np.zeros(len(ids), int)))
    base = build_model("transformer", size, alphabet.size, 0).to(DEVICE)
    names = [name for name, _ in base.named_parameters()]
    stacked = {
        name: torch.stack([dict(m.named_parameters())[name].detach() for m in models]).to(DEVICE)
        for name in names
    }
    for w in stacked.values():
        w.requires_grad_(True)
    buffers = dict(base.named_buffers())

    class Law(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, ids):
            laws = self.inner.forward_embeddings(self.inner.embed(ids[:, :-1]))
            return -laws.gather(-1, ids[:, 1:, None]).mean()

    law = Law(base)

    def loss_of(weights, ids):
        told = {f"inner.{k}": w for k, w in (weights | buffers).items()}
        return torch.func.functional_call(law, told, (ids,))

    many = torch.func.vmap(loss_of)
    adam = torch.optim.Adam(stacked.values())
    for step in range(1, recipe.steps + 1):
        draws = [np.random.default_rng([seed, step]) for seed, _ in cases]
        ids = torch.stack(
            [task(draw, recipe.rows).target for task, draw in zip(tasks, draws, strict=True)]
        ).to(DEVICE)
        for group in adam.param_groups:
            group["lr"] = recipe.rate_at(step)
        losses = many(stacked, ids)
        adam.zero_grad()
        losses.sum().backward()
        norms = sum(w.grad.flatten(1).square().sum(1) for w in stacked.values()).sqrt()
        scale = (recipe.clip / (norms + 1e-6)).clamp(max=1.0)
        for w in stacked.values():
            w.grad *= scale.reshape(-1, *[1] * (w.ndim - 1))
        adam.step()
    say(f"{size}: {len(models)} models, losses {losses.min():.3f} … {losses.max():.3f}")
    return [
        {k: w[i].detach().cpu().numpy() for k, w in stacked.items()} for i in range(len(models))
    ]


def ask(job: dict, split: Split, weights: dict, reference: dict | None, alphabet, levels) -> dict:
    """Rows of one model."""
    target = restore(job["size"], weights, alphabet)
    beside = None if reference is None else restore(job["size"], reference, alphabet)
    random = np.random.default_rng([job["seed"], 9])
    known = [split.background[k] for k in random.permutation(len(split.background))[:80]]
    known = [Item("", "", "member", text) for _, text in known]
    wide = job["what"] in ("panel", "digits")
    generators = [Prefix(16), *(Soft(k, STEPS) for k in ((1, 2, 4, 8) if wide else (1,)))]
    rows = collect(target, split.items, generators, reference=beside, levels=levels, batch=200)
    sure = [-row["nll"] for row in collect(target, known, [], batch=200)]
    told = job | {"rows": rows, "known_members": sure}
    if job["what"] in ("null", "panel", "mismatch"):
        nulls = [("shuffled_targets", target, shuffled(split.items, job["seed"]))]
        blank = build_model("transformer", job["size"], alphabet.size, job["seed"] + 2).to(DEVICE)
        nulls.append(("random_weights", Target(blank, alphabet, DEVICE).freeze(), split.items))
        nulls.append(("overlap_zero", beside, split.items))
        told["nulls"] = {
            name: collect(one, asked, [Soft(1, STEPS)], batch=200)
            for name, one, asked in nulls
            if one
        }
    return told


def restore(size: str, weights: dict, alphabet) -> Target:
    model = build_model("transformer", size, alphabet.size, 0)
    model.load_state_dict({k: torch.from_numpy(w) for k, w in weights.items()})
    return Target(model.to(DEVICE), alphabet, DEVICE).freeze()


def work(rank: int, share: list, out: Path) -> None:
    torch.set_num_threads(1)
    with gzip.open(out / f"rows-{rank}.jsonl.gz", "at") as file:
        for job in share:
            file.write(json.dumps(ask(*job)) + "\n")
            file.flush()


def say(text: str) -> None:
    print(f"{time.perf_counter() - START:.0f} s: {text}", flush=True)


def main(out: Path, quick: bool) -> None:
    steps = 5 if quick else 600
    whole = sotu()
    corpora = {"sotu": whole, "digits": digits() if have_digits() else None}
    corpora["early"], corpora["late"] = whole.named("17*|18*|190*|191*"), whole.named(LATE)
    alphabet = make_alphabet("characters", [d.text for d in whole.documents])
    grey = make_alphabet("characters", ["0123456789abcdefg"])
    jobs = [job for job in plan(quick) if job["what"] != "digits" or corpora["digits"]]
    splits = [split_of(job, corpora) for job in jobs]
    say(f"{len(jobs)} models to train")
    weights: dict[int, dict] = {}
    for size in ("complex", "basic"):
        for is_digits in (False, True):
            chosen = [
                k
                for k, job in enumerate(jobs)
                if job["size"] == size and (job["what"] == "digits") is is_digits
            ]
            if not chosen:
                continue
            cases = [
                (jobs[k]["seed"] + (1000 if jobs[k]["what"] == "reference" else 0), splits[k])
                for k in chosen
            ]
            recipe = Recipe(steps, 64, 3e-3, 50)
            made = train_stack(size, grey if is_digits else alphabet, cases, recipe)
            weights |= dict(zip(chosen, made, strict=True))
    tasks = []
    for k, job in enumerate(jobs):
        if job["what"] == "reference":
            continue
        beside = next(
            (
                weights[j]
                for j, other in enumerate(jobs)
                if other.get("of") == job["what"]
                and (other["seed"], other["size"]) == (job["seed"], job["size"])
            ),
            None,
        )
        tell = (grey, 17) if job["what"] == "digits" else (alphabet, None)
        tasks.append((job, splits[k], weights[k], beside, *tell))
    workers = 1 if quick else WORKERS
    shares = [tasks[rank::workers] for rank in range(workers)]
    if workers == 1:
        work(0, shares[0], out)
    else:
        context = processes.get_context("spawn")
        started = [context.Process(target=work, args=(r, s, out)) for r, s in enumerate(shares)]
        for one in started:
            one.start()
        for one in started:
            one.join()
    say("done")


def have_digits() -> bool:
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


START = time.perf_counter()
if __name__ == "__main__":
    main(Path(sys.argv[1]), "quick" in sys.argv)
