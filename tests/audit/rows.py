"""Rows of audits that never happened, with a known overlap."""

import numpy as np

WORDS = (
    "the of and to a in that is for it was on be with as by at this which have from people "
    "congress states government war peace public national year great law treasury"
).split()


def make_rows(overlap=0.5, *, size=40, seed=0, budgets=(1, 4), gap=0.9, likelihood=1.8, known=True):
    """Items of 48 characters; members' error and −log p lie `gap` and `likelihood` lower."""
    random = np.random.default_rng([seed, 99])
    rows = []
    for side in ("p", "c"):
        for k in range(size):
            member = side == "p" and k < round(overlap * size)
            group = "control" if side == "c" else "member" if member and known else "protected"
            text = " ".join(random.choice(WORDS, 30))[:48]
            base = {"item": f"{side}{k}:0", "document": f"{side}{k}", "group": group}
            nll = max(float(random.normal(2, 0.25)) - likelihood * member, 0.01)
            rows.append(
                base
                | {"generator": "likelihood", "budget": 0, "bits": 0.0, "target": text}
                | {"prompt": "", "output": "", "nll": nll, "min_k": -3 * nll}
            )
            for budget in budgets:
                error = 0.95 - 0.05 * budget - gap * member + random.normal(0, 0.04)
                wrong = random.random(48) < error
                output = "".join("#" if bad else c for c, bad in zip(text, wrong, strict=True))
                rows.append(
                    base
                    | {"generator": "soft", "budget": budget, "bits": 2048.0 * budget}
                    | {"prompt": "", "output": output, "target": text, "exact": not wrong.any()}
                    | {"hamming": float(wrong.mean()), "nll": nll}
                )
    return rows


def make_texts(size=40, seed=0):
    """Documents of the two sides, drawn alike."""
    random = np.random.default_rng([seed, 98])
    return tuple(
        [" ".join(random.choice(WORDS, 40)) for _ in range(size)] for _ in ("protected", "control")
    )
