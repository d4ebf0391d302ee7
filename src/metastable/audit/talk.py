"""A model one can only talk to: text goes in, text comes out, and every exchange is kept.

The transcript is the only state. What it holds is not asked again, so that an audit cut short goes
on to the same rows; and every row can be made again from it, without the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metastable.audit import scores
from metastable.audit.completions import Server, Talk, brief
from metastable.audit.custody import changed_entries
from metastable.audit.spec import ModelSpec
from metastable.audit.split import Item
from metastable.core.folder import write_whole

TRANSCRIPT = "transcript.jsonl"
SAMPLES = 10  # continuations of an item, and places in it, where the config names no other number
LEAST = 16  # characters asked for, in which a refusal can be told
AHEAD = 12  # characters that M is asked for at each place, two or three words
RUNS = (4, 12)  # characters in a row that count, in samples on average and in the best one
# An answer that begins so, where the true text does not, declines to go on with it.
DECLINES = (
    "i can't", "i cannot", "i can not", "i'm sorry", "i am sorry", "sorry,", "i'm unable",
    "i am unable", "i won't", "i'm not able", "i am not able", "as an ai", "unfortunately, i",
)  # fmt: skip

ELSEWHERE = ("common", "also")  # columns that come from texts and not from answers

Row = dict[str, Any]
Tick = Callable[[float], object]


class Conversation:
    """M as someone who answers in text: asks, keeps the transcript, and makes rows of it.

    Items are measured in characters; bits are 8 for each byte of UTF-8, of prompt and item alike.
    That overstates both; a prompt is the item's own beginning, and holds less than the item.
    """

    device = "cpu"

    def __init__(self, talk: Talk | None, path: Path, *, seed: int = 0, samples: int = SAMPLES):
        self.talk, self.path, self.seed, self.samples = talk, path, seed, samples
        self.entries: dict[str, dict[str, Any]] = {}
        self.used: set[str] = set()
        for entry in read_transcript(path):
            self.entries.setdefault(_key(entry["prompt"], entry["parameters"]), entry)
        self.likelihoods: bool | None = None  # None until the first item was asked

    def describe(self) -> dict[str, Any]:
        """What is known of M from outside: an address and a name, or the class that answers."""
        if isinstance(self.talk, Server):
            return {"url": self.talk.url, "name": self.talk.name}
        return {"function": type(self.talk).__name__}

    def make_rows(
        self, budget: int | None, items: Sequence[Item], tick: Tick = lambda _: None
    ) -> list[Row]:
        """Rows after the first `budget` characters; without a budget those of `trained on`."""
        rows = []
        for k, item in enumerate(items):
            tick(k)
            rows.append(self._familiar(item) if budget is None else self._written(item, budget))
        return rows

    def _familiar(self, item: Item) -> Row:
        """What the item's likelihood is, or how near M comes to it in text.

        Likelihoods are used for all items or none: the first one shows whether they are offered.
        Else M is asked for the next words at places along the true text, which tells most, and for
        samples of its second half. Measured (experiments/audit/text_scores.py, seeds 1 and 2: 80
        messages of 96 characters, seen 55 times by a model of 65 k parameters): areas of 0.96 and
        0.99 by −log p, 0.68 and 0.71 by foresight, 0.55 and 0.51 by coverage, 0.50 by the best
        sample. Coverage shows only where passages nearly come out.
        """
        row = _row(item, "likelihood", 0, "") | {"target": item.text}
        logs = None if self.likelihoods is False else self._log_probs(item.text)
        if self.likelihoods is None:
            self.likelihoods = logs is not None
        if logs is not None:
            nll = scores.nll(logs)
            # Tokens are the server's own; zlib counts characters.
            by_character = -math.fsum(logs) / len(item.text)
            row |= {"nll": nll, "min_k": scores.min_k(logs)}
            row["zlib_ratio"] = scores.zlib_ratio(by_character, item.text)
        if self.likelihoods:
            return row
        prompt = beginning(item.text, len(item.text) // 2)
        wanted = item.text[len(prompt) :]
        answers = self._answers(prompt, wanted, self.samples)
        pairs = [(wanted, answer) for answer in answers]
        cut = [answer[: len(wanted)] for answer in answers]
        mean, best = ([scores.coverage(wanted, text, run) for text in cut] for run in RUNS)
        row |= {"prompt": prompt, "output": cut[best.index(max(best))]}
        row |= {"coverage": math.fsum(mean) / len(mean), "best_coverage": max(best)}
        ahead = []
        for place in places_in(item.text, self.samples):
            wanted = item.text[place : place + AHEAD]
            ahead.append((wanted, self._answers(item.text[:place], wanted, 0)[0]))
        row["foresight"] = math.fsum(scores.foresight(*pair) for pair in ahead) / len(ahead)
        pairs += ahead
        row["refused"] = sum(declines(answer, true) for true, answer in pairs) / len(pairs)
        return row

    def _written(self, item: Item, budget: int) -> Row:
        prompt = beginning(item.text, budget)
        wanted = item.text[len(prompt) :]
        answer = self._answers(prompt, wanted, 0)[0]
        output = answer[: len(wanted)]
        row = _row(item, "prefix", budget, prompt) | {"output": output, "target": wanted}
        ids = [list(map(ord, text)) for text in (wanted, output)]
        for score in (scores.exact, scores.hamming, scores.edit, scores.common_run):
            row[score.__name__] = score(*ids)
        shortest = len(prompt) if row["exact"] else None
        row["compression"] = scores.compression(len(wanted), shortest)
        return row | {"refused": float(declines(answer, wanted))}

    def _answers(self, prompt: str, wanted: str, samples: int) -> list[str]:
        """Continuations as long as the true one or longer: the most likely, or so many samples."""
        length, count = max(len(wanted.encode()), LEAST), max(samples, 1)
        seed = self.seed if samples else None
        parameters = {"max_tokens": length, "temperature": float(samples > 0), "n": count}
        parameters |= {} if seed is None else {"seed": seed}

        def ask(talk: Talk) -> dict[str, Any]:
            told: Any = talk.complete([prompt] * count, length, seed)
            if not isinstance(told, list) or [type(text) for text in told] != [str] * count:
                raise ValueError(
                    f"complete must give a list of texts, one for each of {count} prompts; got "
                    f"{brief(repr(told))}: change what it returns."
                )
            answers = [_storable(text) for text in told]
            return {
                "answers": answers,
                "refused": [declines(answer, wanted) for answer in answers],
            }

        return self._once(prompt, parameters, ask)["answers"]

    def _log_probs(self, text: str) -> list[float] | None:
        parameters = {"max_tokens": 0, "echo": True, "logprobs": 1}

        def ask(talk: Talk) -> dict[str, Any]:
            offered = getattr(talk, "log_probs", None)
            logs = None if offered is None else offered(text)
            return {"log_probs": logs and [float(p) for p in logs]}

        return self._once(text, parameters, ask)["log_probs"]

    def _once(self, prompt: str, parameters: dict[str, Any], ask: Callable[..., Any]) -> Any:
        """The kept answer, or a new one, which is kept before it is used."""
        key = _key(prompt, parameters)
        self.used.add(key)
        if key not in self.entries:
            if self.talk is None:
                raise ValueError(f"{self.path.name} holds no answer to {prompt[:40]!r}.")
            answer = ask(self.talk)
            served = getattr(self.talk, "served", None)
            self._refuse_other(served)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            told = {"time": now, "model": served, "parameters": parameters, "prompt": prompt}
            self.entries[key] = told | answer
            with self.path.open("ab") as file:
                file.write((json.dumps(told | answer) + "\n").encode())
        return self.entries[key]

    def _refuse_other(self, served: str | None) -> None:
        known = (entry["model"] for entry in self.entries.values() if entry["model"])
        before = next(known, served)
        if served != before:
            raise ValueError(
                f"the server must be one model throughout; it calls itself {served!r} now and "
                f"{before!r} before: bring that back, or choose another --out."
            )


def open_talk(model: ModelSpec, talk: Talk | None, path: Path, seed: int) -> Conversation:
    """The one to talk to: the server of a config, or `talk`, which goes before it."""
    if talk is None and model.url is None:
        raise ValueError(
            'model.url must be set for a model of family "text", such as '
            '"http://127.0.0.1:8000/v1"; got none: set it, or hand `talk` to run_audit.'
        )
    speaker = Server(str(model.url), model.name, model.key) if talk is None else talk
    return Conversation(speaker, path, seed=seed, samples=model.samples or SAMPLES)


def read_transcript(path: Path) -> list[dict[str, Any]]:
    """The exchanges of a transcript; a last line that was cut short is removed from the file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    try:
        entries = [json.loads(line) for line in whole.splitlines()]
        for entry in entries:
            _key(entry["prompt"], entry["parameters"])
    except (ValueError, LookupError, TypeError):
        raise ValueError(
            f"{path} is damaged (not a transcript): restore it from a copy, or choose another "
            "--out."
        ) from None
    if whole != data:
        write_whole(path, whole)
    return entries


def replay(path: Path, tables: Mapping[str, Sequence[Row]], seed: int, samples: int) -> str:
    """Make all rows of some tables again from a transcript alone; a ValueError where one differs.

    Every exchange must be one that a row rests on: answers asked for and left out would show.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is missing.")
    kept = Conversation(None, path, seed=seed, samples=samples)
    count = 0
    for table, rows in tables.items():
        for row in rows:
            budget = None if row["generator"] == "likelihood" else int(row["budget"])
            text = row["target"] if budget is None else row["prompt"] + row["target"]
            pair = None if row.get("pair") is None else int(row["pair"])
            item = Item(row["item"], row["document"], row["group"], text, pair=pair)
            again = kept.make_rows(budget, [item])[0]
            own = {name: cell for name, cell in row.items() if name not in ELSEWHERE}
            for name, told, follows in changed_entries(own, again, close=1e-9):
                raise ValueError(
                    f"{table}: {name} of {row['item']} says {str(told)[:40]!r}, and the transcript "
                    f"gives {str(follows)[:40]!r}."
                )
            count += 1
    idle = len(kept.entries.keys() - kept.used)
    if idle:
        raise ValueError(f"{path.name} holds {idle} answers that no row rests on.")
    return f"{count} rows follow from {len(kept.entries)} exchanges"


def beginning(text: str, characters: int) -> str:
    """The first characters of a text, up to the end of a word where one ends among them.

    Tokens of most models begin with the space before a word: a prompt cut inside a word would ask
    for something that hardly ever stood in training.

    >>> beginning("the state of the union", 12), beginning("metastable", 4)
    ('the state of', 'meta')
    """
    head = text[:characters]
    inside = not text[characters : characters + 1].isspace()
    space = re.search(r"\s\S*$", head) if inside else None
    return head if space is None else head[: space.start()].rstrip() or head


def places_in(text: str, most: int) -> list[int]:
    """Ends of words in a text, evenly spread; its middle where there are none.

    >>> places_in("the state of the union is strong", 3)
    [9, 12, 22]
    """
    ends = [m.end() for m in re.finditer(r"\S(?=\s)", text)]
    ends = [end for end in ends if 8 <= end <= len(text) - 4] or [len(text) // 2]
    count = min(most, len(ends))
    return [ends[k * len(ends) // count] for k in range(count)]


def declines(answer: str, wanted: str) -> bool:
    """Whether an answer is empty, or begins with one of `DECLINES` where the true text does not.

    >>> declines("I'm sorry, I can't help.", " of the union"), declines(" of the", " of the union")
    (True, False)
    """
    first, true = (" ".join(t.replace("’", "'").lower().split()) for t in (answer, wanted))
    return not first or any(first.startswith(d) and not true.startswith(d) for d in DECLINES)


def refuse_short_items(items: Sequence[Item], budgets: Sequence[int]) -> None:
    """Refuse prefixes that leave nothing of an item to be written."""
    shortest = min((item.text for item in items), key=len)
    if max(budgets, default=0) >= len(shortest):
        raise ValueError(
            f"prefix of {max(budgets)} characters must be shorter than each item; "
            f"{shortest[:40]!r} has {len(shortest)}: lower the prefix, or leave short documents "
            "out."
        )


def _row(item: Item, generator: str, budget: int, prompt: str) -> Row:
    return {
        "item": item.name,
        "document": item.document,
        "group": item.group,
        "generator": generator,
        "budget": budget,
        "bits": 8.0 * len(prompt.encode()),
        "item_bits": 8.0 * len(item.text.encode()),
        "prompt": prompt,
        "output": "",
    } | ({} if item.pair is None else {"pair": item.pair})


def _key(prompt: str, parameters: Mapping[str, Any]) -> str:
    return json.dumps([prompt, dict(parameters)], sort_keys=True)


def _storable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode()
