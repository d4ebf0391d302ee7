"""A model behind HTTP on this machine, to be talked to by the common completion protocol."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from metastable.audit.target import Target
from metastable.models.own.decoding import Greedy, Sample

LARGEST = 2**20  # bytes of a request
MOST = 1000  # samples of a request


def serve_target(
    target: Target, port: int = 0, *, likelihoods: bool = True, name: str = "metastable"
) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 that completes texts; `serve_forever()` runs it. Port 0: any free one.

    POST /v1/completions with prompt, max_tokens, temperature, seed, n, logprobs and echo; without
    `likelihoods` the last two are refused. A text begins where an item does, after M's opening id.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", 0))
                if self.path != "/v1/completions" or not 0 < size <= LARGEST:
                    raise ValueError(f"POST /v1/completions, at most {LARGEST} bytes")
                asked = json.loads(self.rfile.read(size))
                if asked.get("echo") and not likelihoods:
                    raise ValueError("echo and logprobs are not offered")
                choices = _echo(target, asked) if asked.get("echo") else _complete(target, asked)
                code, answer = 200, {"model": name, "choices": choices}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                code, answer = 400, {"error": {"message": str(error)[:200]}}
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def _complete(target: Target, asked: dict[str, Any]) -> list[dict[str, Any]]:
    count, heat = int(asked.get("n") or 1), float(asked.get("temperature", 1.0))
    ids = _ids(target, asked["prompt"])
    limit = getattr(target.model, "places", None) or 10**6
    length = min(int(asked.get("max_tokens", 16)), limit - ids.shape[1])
    if not 1 <= count <= MOST or length < 1:
        raise ValueError(f"n must be 1 to {MOST}; prompt and answer must fit {limit} places")
    decoding = Sample(heat, seed=int(asked.get("seed") or 0)) if heat > 0 else Greedy()
    opening = target.alphabet.opening
    written = target.model.generate(ids.repeat(count, 1), length, decoding, stop=opening)
    texts = [target.alphabet.decode(row) for row in written.tolist()]
    return [{"index": k, "text": text, "finish_reason": "length"} for k, text in enumerate(texts)]


@torch.no_grad()
def _echo(target: Target, asked: dict[str, Any]) -> list[dict[str, Any]]:
    text = str(asked["prompt"])
    ids = _ids(target, text)
    logs = target.model.log_probs(ids)[0].double().tolist()
    tokens = [target.alphabet.decode([k]) for k in ids[0, 1:].tolist()]
    return [{"index": 0, "text": text, "logprobs": {"tokens": tokens, "token_logprobs": logs}}]


def _ids(target: Target, text: str) -> torch.Tensor:
    own = torch.tensor([target.alphabet.encode(text)], dtype=torch.long, device=target.device)
    return torch.cat([target.opening(1), own], 1)
