"""Record the allocations of a training by torch's memory history, for pool.py to replay.

A small transformer is trained for a few steps with batches of different lengths; the model and the
optimizer are made while it records. It needs a GPU and torch. The file is JSON: what was run, and
`steps`. Each is an allocation, its size, or [size, stream] if the stream is not the first; or a
free: minus the number of the allocation, counted from 0.
"""

from __future__ import annotations

import json
import textwrap
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("traces") / "transformer.json"
LENGTHS = (256, 192, 256, 224, 128, 256)
BATCH, WIDTH, LAYERS, WORDS = 16, 512, 6, 8192
MOST_ENTRIES = 200_000


def train() -> list[dict[str, Any]]:
    """Train, and return torch's history of the first GPU."""
    import torch

    # With the first call come a context and a handle, which are no part of a training.
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES, context=None)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Embedding(WORDS, WIDTH),
        torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False),
        torch.nn.Linear(WIDTH, WORDS),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for length in LENGTHS:
        words = torch.randint(WORDS, (BATCH, length + 1)).cuda()
        said = model(words[:, :-1])
        loss = torch.nn.functional.cross_entropy(said.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del words, said, loss
    torch.cuda.synchronize()
    history = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return list(history)


def compact(history: list[dict[str, Any]]) -> list[int | list[int]]:
    """Return the allocations and frees of a history as steps."""
    live: dict[int, int] = {}
    streams: dict[int, int] = {}
    steps: list[int | list[int]] = []
    made = 0
    for entry in history:
        address = entry["addr"]
        if entry["action"] == "alloc" and entry["size"] > 0:
            stream = streams.setdefault(entry["stream"], len(streams))
            live[address] = made
            made += 1
            steps.append([entry["size"], stream] if stream else entry["size"])
        # When the program frees it; torch completes that later if other streams used it.
        elif entry["action"] == "free_requested" and address in live:
            steps.append(-live.pop(address))
    return steps


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    import torch

    steps = compact(train())
    what = f"transformer: {LAYERS} layers of {WIDTH}, batches of {BATCH} by {LENGTHS}, AdamW"
    content = {"what": what, "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    numbers = textwrap.fill(json.dumps(steps)[1:-1], 100)
    text = json.dumps(content, indent=2).removesuffix("\n}") + f',\n  "steps": [\n{numbers}\n]}}\n'
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    made = sum(isinstance(step, list) or step > 0 for step in steps)
    print(f"{made} allocations and {len(steps) - made} frees in {options.output}")


if __name__ == "__main__":
    main()
