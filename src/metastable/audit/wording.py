"""The findings in plain words, made from the numbers: what may be quoted, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metastable.audit.evidence import REPRODUCES, TRAINED
from metastable.audit.verdict import CANNOT_TELL, NO_EVIDENCE

Facts = Mapping[str, Any]

MEANING = {
    TRAINED: "The model finds protected texts likelier than matched texts it has not seen, "
    "beyond chance.",
    REPRODUCES: "Protected texts come out of the model near-verbatim, beyond matched texts, "
    "by prompts that cannot hold them.",
    NO_EVIDENCE: "Nothing was found at this size and level. That is not proof of absence.",
    CANNOT_TELL: "A condition failed, which is named: neither presence nor absence follows.",
}
NOT_SAID = {
    (True, True): "This does not say that each text was used, how it was obtained, or that any law "
    "was broken.",
    (True, False): "This does not say that each text was used, how it was obtained, that M puts "
    "copies out, or that any law was broken.",
    (
        False,
        True,
    ): "This does not say that it does so in ordinary use, nor that any law was broken.",
    (False, False): "This does not show that the texts were not used.",
}


def quote(facts: Facts) -> str:
    """A paragraph that can be quoted: its first sixty words say what, how sure, and what not."""
    trained, reproduces = facts["trained_on"], facts["reproduces"]
    found = [one["finding"] == one["name"] for one in (trained, reproduces)]
    sure = f"If the control is matched, a false finding has a chance of at most {facts['level']:g}."
    if facts.get("pairs"):
        sure = f"Coins chose what was published: a false finding has a chance of {facts['level']:g}"
        sure += " at most."
    meant = NOT_SAID[found[0], found[1]]
    if not any(found) and CANNOT_TELL in (trained["finding"], reproduces["finding"]):
        meant = "This is no finding for either side."
    first = [_trained(trained), _reproduces(reproduces), *([sure] if any(found) else []), meant]
    return " ".join([*first, *_details(facts)])


def _trained(finding: Facts) -> str:
    if finding["finding"] == CANNOT_TELL:
        return "Whether the model was trained on the protected texts cannot be told."
    if finding["finding"] == NO_EVIDENCE:
        p = shown_p(finding["p_value"])
        return f"No evidence that the model was trained on the protected texts ({p})."
    return f"The model was trained on protected texts ({shown_p(finding['p_value'])})."


def _reproduces(finding: Facts) -> str:
    if finding["finding"] == CANNOT_TELL:
        return "Whether it reproduces them cannot be told."
    if finding["finding"] == NO_EVIDENCE:
        return f"No evidence that it reproduces them ({shown_p(finding['p_value'])})."
    return f"It reproduces protected texts near-verbatim ({shown_p(finding['p_value'])})."


def _details(facts: Facts) -> list[str]:
    trained, reproduces, power = facts["trained_on"], facts["reproduces"], facts["power"]
    overlap, documents = facts["overlap"], power["documents"]
    sure = f"with {percent(power['power'])} probability"
    units = "parts of works" if "works" in facts else "documents"
    told = [f"{documents[0]} protected and {documents[1]} control {units} were compared."]
    if facts.get("pairs"):
        told = [f"{facts['pairs']} canaries were compared with the versions kept back."]
        if trained["finding"] == TRAINED:
            low, mid, high = map(percent, trained["auc"])
            told.append(
                f"The model finds the published version likelier in {mid} of pairs (95 % interval "
                f"{low} to {high}; chance is 50 %)."
            )
    elif trained["finding"] == TRAINED:
        low, mid, high = map(percent, trained["auc"])
        told += [
            "A protected document looks more familiar to the model than a control in "
            f"{mid} of pairs (95 % interval {low} to {high}; chance is 50 %).",
            f"At least {percent(overlap['low'])} of the protected documents were trained on "
            f"({percent(overlap['confidence'])} confidence).",
        ]
    if trained["finding"] == NO_EVIDENCE:
        told.append(f"A familiarity in {percent(power['auc'])} of pairs would be found {sure}.")
    if reproduces["finding"] == REPRODUCES:
        share = {r["set"]: r["share"] for r in reproduces["rates"] if r["written"] != "exactly"}
        low, mid, high = map(percent, share["protected"])
        prompt = _prompt(reproduces["decided_by"], facts.get("unit", "tokens"))
        told.append(
            f"{prompt} it wrote {mid} of the protected passages "
            f"near-verbatim (95 % interval {low} to {high}), and {percent(share['control'][1])} of "
            "the controls."
        )
    if reproduces["finding"] == NO_EVIDENCE:
        told.append(f"Copies of {percent(power['rate'])} of documents would be found {sure}.")
    told += [
        f"The test of “{one['name']}” was stopped: {one['reason']}."
        for one in (trained, reproduces)
        if one["finding"] == CANNOT_TELL
    ]
    planned = facts.get("planned")
    if planned is None:
        return [*told, "The test was not planned beforehand."]
    when = planned["written"][:16].replace("T", " ")
    return [*told, f"The test was fixed on {when} UTC (commitment {planned['commitment'][:16]}…)."]


def shown_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _prompt(name: str, unit: str = "tokens") -> str:
    """How M was prompted, such as by "prefix 16"."""
    kind, budget = name.rsplit(" ", 1)
    vectors = "one vector" if budget == "1" else f"{budget} vectors"
    words = {
        "prefix": f"Given the first {budget} {unit} of a passage,",
        "discrete": f"Given a readable prompt of {budget} tokens,",
        "shared": f"Given {vectors} fitted to all passages and the beginning of one,",
    }
    return words.get(kind, f"Given {vectors} fitted to a passage,")
