"""Who answers in text: the protocol, and a client of servers that complete texts over HTTP."""

from __future__ import annotations

import itertools
import json
import os
import time
from http.client import HTTPException
from typing import Any, Protocol
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from metastable.audit.spec import is_loopback

TIMEOUT = 120.0  # seconds for one answer
PAUSES = (1.0, 4.0, 15.0)  # seconds before a server that has answered is asked again
LARGEST = 2**24  # bytes of one answer


class Talk(Protocol):
    """Whoever answers. A `log_probs(text)` beside `complete` is used where there is one.

    It gives the log-probabilities of a text's tokens, or None.
    """

    def complete(self, prompts: list[str], characters: int, seed: int | None) -> list[str]:
        """A continuation of each prompt, of about so many characters or more.

        Without a seed the most likely one; else a sample at temperature 1, and equal prompts want
        samples that are independent of each other.
        """
        ...


class NotOffered(ValueError):
    """The server understood, and does not do that."""


class Server:
    """The common completion protocol over HTTP: POST {url}/completions, choices[].text.

    Redirections are not followed and, on this machine, no proxy is used: what is asked goes to the
    named host alone. The key is read from the environment and written nowhere.
    """

    def __init__(self, url: str, name: str | None = None, key: str | None = None):
        self.url, self.name = url.rstrip("/"), name
        self.served: str | None = None
        self.answered = False
        self.headers = {"Content-Type": "application/json"}
        if key is not None:
            if not os.environ.get(key):
                raise ValueError(
                    f"model.key must name an environment variable that holds the key; {key} is "
                    "not set: export it."
                )
            self.headers["Authorization"] = f"Bearer {os.environ[key]}"
        handlers: list[request.BaseHandler] = [_NoRedirect()]
        if is_loopback(urlsplit(url).hostname):
            handlers.append(request.ProxyHandler({}))
        self.opener = request.build_opener(*handlers)

    def complete(self, prompts: list[str], characters: int, seed: int | None) -> list[str]:
        texts: list[str] = []
        for prompt, equal in itertools.groupby(prompts):
            wanted = len(texts) + len(list(equal))
            while len(texts) < wanted:  # servers that know no `n` send one at a time
                # A token has at least one byte.
                body = {"prompt": prompt, "max_tokens": characters, "n": wanted - len(texts)}
                body |= {"temperature": 0.0}
                if seed is not None:
                    body |= {"temperature": 1.0, "seed": seed + len(texts)}
                texts += self._texts(self._post(body))[: wanted - len(texts)]
        return texts

    def log_probs(self, text: str) -> list[float] | None:
        """log p of each token of a text, by echo and `logprobs`; None where that is not offered.

        The first token has none where the server puts nothing before it.
        """
        body = {"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0.0}
        try:
            answer = self._post(body)
            # A server that knows no echo gives the tokens it wrote: not those of the text.
            if self._texts(answer) != [text]:
                return None
            logs: list[Any] = answer["choices"][0]["logprobs"]["token_logprobs"]
            logs = [float(p) for p in (logs[1:] if logs[0] is None else logs)]
        except (NotOffered, LookupError, TypeError):
            return None
        return logs if logs and all(p <= 1e-6 for p in logs) else None

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        body = body if self.name is None else {"model": self.name, **body}
        place = f"{self.url}/completions"
        asked = request.Request(place, json.dumps(body).encode(), self.headers)
        # A server that never answered is a wrong address: no reason to wait for it.
        for pause in (*(PAUSES if self.answered else ()), None):
            try:
                with self.opener.open(asked, timeout=TIMEOUT) as reply:
                    data = reply.read(LARGEST)
                break
            except HTTPError as error:
                reason = f"HTTP {error.code} {brief(error.read(200))}"
                if error.code < 500 and error.code not in (408, 429):
                    raise _refused(place, error.code, reason) from None
            except (OSError, HTTPException) as error:
                reason = brief(str(getattr(error, "reason", error) or type(error).__name__))
            if pause is None:
                raise ConnectionError(self._silent(reason)) from None
            time.sleep(pause)
        try:
            answer = json.loads(data)
            if not all(isinstance(choice["text"], str) for choice in answer["choices"]):
                raise TypeError
            answer["choices"][0]  # one at least
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ValueError(
                "model.url must speak the completion protocol (JSON with choices[].text); "
                f"{place} sent {brief(data) or 'nothing'}: check the url, which as a rule ends "
                "in /v1."
            ) from None
        self.answered = True
        self.served = str(answer["model"]) if answer.get("model") else self.served
        return answer

    @staticmethod
    def _texts(answer: dict[str, Any]) -> list[str]:
        return [str(choice["text"]) for choice in answer["choices"]]

    def _silent(self, reason: str) -> str:
        if not self.answered:
            return (
                f"model.url must be a server that answers; {self.url} does not ({reason}): start "
                "it, or check the url. What was asked before is kept."
            )
        return (
            f"the server at {self.url} no longer answers ({reason}); what it said is kept: start "
            "it again, and run the same command to go on."
        )


class _NoRedirect(request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _refused(place: str, code: int, reason: str) -> ValueError:
    if code in (301, 302, 303, 307, 308):
        return ValueError(f"model.url must not lead elsewhere; {place} does ({reason}): name it.")
    if code in (401, 403):
        return ValueError(f"model.key must open {place}; it says {reason}: check the key.")
    return NotOffered(f"model.url must take completions; {place} says {reason}: check url, name.")


def brief(text: str | bytes) -> str:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    return " ".join(text.split())[:80]
