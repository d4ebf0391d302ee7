"""Load a model with transformers and run it, nothing else: what an inspection is held against.

    python benchmarks/bare.py '{"folder": …, "ids": […], "passes": {"1x103": 12}}'

`passes`: how many forward passes of a batch of rows × tokens.
"""

import json
import sys

import numpy as np
import torch
from transformers import AutoModel

told = json.loads(sys.argv[1])
model = AutoModel.from_pretrained(
    told["folder"],
    dtype=torch.float32,
    attn_implementation="eager",
    local_files_only=True,
    weights_only=True,
).eval()
with torch.no_grad():
    for shape, passes in told["passes"].items():
        ids = torch.tensor(np.resize(told["ids"], [int(size) for size in shape.split("x")]))
        for _ in range(passes):
            model(ids, use_cache=False)
