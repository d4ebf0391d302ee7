"""Power of canary pairs: trainings on a corpus with twenty of them, 0.01 % of its tokens.

    python experiments/audit/canary_pairs.py OUT.jsonl [seeds [case …]]

One JSON line for each training, kept as it is made; the same command goes on after a stop. The
model is a transformer of one layer over the 4096 commonest words and marks of about 400 000 words
of presidents' messages. Each canary, of two words, stands in it once; two epochs. Cases: `plain`;
`clean` (nothing was published); `deduplicated` (no sentence twice, and no run of eight words);
`normalised` (small letters, no marks); `substituted` (5 % of the words are others). Scores go
through the audit's own collection and test. One to two minutes a training on one core;
`python experiments/audit/canary_pairs.py OUT.jsonl summary RESULT.json` sums up.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from metastable.audit.alphabet import Alphabet
from metastable.audit.canaries import canary_items, make_pairs, publish
from metastable.audit.collect import collect
from metastable.audit.corpus import sotu
from metastable.audit.evidence import questions
from metastable.audit.pairs import sign_flip_p
from metastable.audit.statistics import proportion
from metastable.audit.target import Target
from metastable.models.own.transformer import DecoderOnly, TransformerConfig

PAIRS, CANARY, WORDS, VOCABULARY = 20, 2, 400_000, 4096
WIDTH, LENGTH, ROWS, RATE, EPOCHS = 32, 64, 8, 5e-3, 2
LEVEL = 1e-3
REDRAWS = 10_000
CASES = {"plain": 20, "clean": 3, "deduplicated": 5, "normalised": 5, "substituted": 5}


class Words(Alphabet):
    """Words and marks, the commonest of a corpus; id 0 opens and 1 stands for all others."""

    opening = 0

    def __init__(self, texts: list[str], normalised: bool):
        self.normalised, self.size = normalised, VOCABULARY
        counts = Counter(part for text in texts for part in self.parts(text))
        self.names = ["", "?", *(part for part, _ in counts.most_common(VOCABULARY - 2))]
        self.ids = {part: k for k, part in enumerate(self.names)}

    def parts(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower()) if self.normalised else re.findall(r"\w+|\S", text)

    def encode(self, text: str) -> list[int]:
        return [self.ids.get(part, 1) for part in self.parts(text)]

    def decode(self, ids) -> str:
        return " ".join(self.names[k] for k in ids if k)

    def round_trip(self, text: str) -> list[int]:
        return self.encode(text)  # rare words are lost, as with any such model


def choose_texts() -> list[str]:
    """The same messages in every training, about `WORDS` words."""
    texts = [document.text for document in sotu().documents]
    chosen, words = [], 0
    for k in np.random.default_rng(0).permutation(len(texts)):
        if words < WORDS:
            chosen.append(texts[k])
            words += len(texts[k].split())
    return chosen


def clean_up(texts: list[str], case: str, random: np.random.Generator) -> list[str]:
    """What a trainer may do to texts before training."""
    if case == "deduplicated":
        known: set[str] = set()
        kept = [
            [s for s in re.split(r"(?<=[.!?]) ", t) if not (s in known or known.add(s))]
            for t in texts
        ]
        return drop_repeats([" ".join(own) for own in kept])
    if case == "substituted":
        words = [text.split() for text in texts]
        every = [word for own in words for word in own]
        other = lambda w: every[random.integers(len(every))] if random.random() < 0.05 else w
        return [" ".join(map(other, own)) for own in words]
    return texts


def drop_repeats(texts: list[str], run: int = 8) -> list[str]:
    """Texts without the words of any run of `run` words that stood before."""
    known: set[int] = set()
    made = []
    for text in texts:
        words = text.split()
        kept = np.ones(len(words), bool)
        for k in range(len(words) - run + 1):
            key = hash(tuple(words[k : k + run]))
            if key in known:
                kept[k : k + run] = False
            known.add(key)
        made.append(" ".join(w for w, keep in zip(words, kept, strict=True) if keep))
    return made


def train(texts: list[str], alphabet: Words, seed: int) -> tuple[Target, list[float], int]:
    """A model trained on texts in `EPOCHS` passes, its loss in each, and the tokens of one."""
    ids = np.concatenate([[0, *alphabet.encode(text)] for text in texts])
    model = DecoderOnly(
        TransformerConfig(VOCABULARY, WIDTH, 4, 1, 4 * WIDTH, norm_first=True), seed
    )
    adam = torch.optim.Adam(model.parameters(), fused=True)
    random = np.random.default_rng([seed, 21])
    batches = (len(ids) - LENGTH - 1) // (LENGTH * ROWS)
    losses, step = [], 0
    for _ in range(EPOCHS):
        shift, total = int(random.integers(LENGTH)), 0.0
        order = random.permutation((len(ids) - shift - 1) // LENGTH)
        for k in range(batches):
            step += 1
            starts = shift + LENGTH * order[k * ROWS : (k + 1) * ROWS]
            rows = torch.from_numpy(np.stack([ids[s : s + LENGTH + 1] for s in starts]))
            rate = RATE * min(1, step / 50) * (1 - 0.9 * step / (EPOCHS * batches))
            for group in adam.param_groups:
                group["lr"] = rate
            loss = -model.log_probs(rows).mean()
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            total += loss.item()
        losses.append(total / batches)
    return Target(model, alphabet).freeze(), losses, len(ids)


def measure(case: str, seed: int, texts: list[str]) -> dict:
    started = time.perf_counter()
    pairs = make_pairs(texts, pairs=PAIRS, words=CANARY, seed=seed)
    published, records = publish(texts, pairs, seed=seed)
    read = clean_up(
        texts if case == "clean" else published, case, np.random.default_rng([seed, 22])
    )
    alphabet = Words(read, case == "normalised")
    target, losses, tokens = train(read, alphabet, seed)
    items = canary_items({"pairs": records})
    (question,) = questions(collect(target, items, [], batch=2 * PAIRS, progress=False))
    d = question.protected - question.control
    signs = np.random.default_rng([seed, 23]).choice([-1.0, 1.0], (REDRAWS, PAIRS))
    redrawn = np.array([sign_flip_p(row * np.abs(d)) for row in signs])
    whole = "\n".join(" ".join(alphabet.parts(text)) for text in read)
    kept = [" ".join(alphabet.parts(r["ab"[r["coin"]]])) in whole for r in records]
    added = sum(len(alphabet.encode(r["ab"[r["coin"]]])) for r in records)
    return {
        "case": case,
        "seed": seed,
        "p": sign_flip_p(d),
        "p_of_first": {str(k): sign_flip_p(d[:k]) for k in (5, 10, 15)},
        "differences": d.tolist(),
        "share": added / tokens,
        "tokens": tokens,
        "canaries_left": int(sum(kept)) if case != "clean" else 0,
        "losses": losses,
        "redrawn_below": {str(a): float(np.mean(redrawn <= a)) for a in (0.001, 0.01, 0.05, 0.5)},
        "seconds": time.perf_counter() - started,
    }


def summarise(lines: list[dict]) -> dict:
    told: dict = {
        "command": "python experiments/audit/canary_pairs.py OUT.jsonl",
        "pairs": PAIRS,
        "words_of_a_canary": CANARY,
        "epochs": EPOCHS,
        "level": LEVEL,
        "cases": {},
    }
    for case in CASES:
        own = [line for line in lines if line["case"] == case]
        if not own:
            continue
        count = lambda p: {
            "detected": int(sum(p)),
            "share": proportion(int(sum(p)), len(p)).to_list(),
        }
        told["cases"][case] = {
            "trainings": len(own),
            **count([line["p"] < LEVEL for line in own]),
            "share_of_tokens": float(np.mean([line["share"] for line in own])) * (case != "clean"),
            "canaries_left": float(np.mean([line["canaries_left"] for line in own])),
            "median_p": float(np.median([line["p"] for line in own])),
            "by_pairs": {
                k: count([line["p_of_first"][k] < LEVEL for line in own]) for k in ("10", "15")
            },
            "redrawn_below": {
                a: float(np.mean([line["redrawn_below"][a] for line in own]))
                for a in own[0]["redrawn_below"]
            },
            "seconds": float(np.median([line["seconds"] for line in own])),
        }
    return told


def main(out: Path, seeds: int, cases: list[str]) -> None:
    torch.set_num_threads(1)
    done = {(line["case"], line["seed"]) for line in read(out)}
    texts = choose_texts()
    for case in cases:
        for seed in range(min(seeds, CASES[case])):
            if (case, seed) not in done:
                line = measure(case, seed, texts)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(case, seed, f"p = {line['p']:.2g}, {line['seconds']:.0f} s", flush=True)


def read(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []


if __name__ == "__main__":
    place, *more = sys.argv[1:]
    if more[:1] == ["summary"]:
        Path(more[1]).write_text(json.dumps(summarise(read(Path(place))), indent=1) + "\n")
    else:
        main(Path(place), int(more[0]) if more else 20, more[1:] or list(CASES))
