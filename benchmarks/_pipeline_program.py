"""What `benchmarks/pipeline.py` starts: a stage of a pipeline, or all of a model in one process.

Prints one line of JSON: the seconds of each batch, and where the time of each rank went.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

import retrograd as torch
from retrograd import distributed, pipeline

WIDTH, BLOCKS, ROWS = 384, 8, 128


def model() -> Any:
    """Blocks of equal cost, as those of a transformer without attention."""
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(
        *(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
            for _ in range(BLOCKS)
        )
    )


def main(stages: int, schedule: str, microbatches: int, batches: int) -> None:
    pipe = pipeline.Pipeline(
        model(), stages, microbatches=microbatches, schedule=schedule,
        loss_fn=torch.nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    )  # fmt: skip
    torch.manual_seed(1)
    item = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    data = iter(lambda: item, None)
    loss = [pipe.train_batch(data) for _ in range(2)][-1]
    pipe.stats.reset()
    seconds = []
    for _ in range(batches):
        start = time.perf_counter()
        pipe.train_batch(data)
        seconds.append(time.perf_counter() - start)
    stats = [json.loads(text) for text in pipe.grid.texts(json.dumps(asdict(pipe.stats)))]
    if distributed.get_rank() == 0:
        print(json.dumps({"seconds": seconds, "stats": stats, "loss": loss}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
