"""``retrograd shard plan``: options and implementation."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import textwrap
import traceback
from types import NoneType
from typing import Any

from retrograd import _alias
from retrograd._errors import UserError, one_line
from retrograd._source import is_own
from retrograd.nn.module import Module
from retrograd.pipeline.command import _columns, _cost, _positive
from retrograd.tensor._tensor import Tensor

NAMES = ("data", "fsdp", "tensor")
OPTIMIZERS = ("adamw", "adam", "momentum", "sgd")
ABOUT = "plan how to train a model on several devices"
DESCRIPTION = """\
Estimate the memory that a training step takes on each device, and the traffic between devices,
without running it. The model is created without memory, so it can have any size.

MODEL is a Python file and the name of a function in it. The function returns a model, which
returns the loss, and a tuple of the arguments of the model: the batch of all devices. For tensor
parallel, it also returns a plan as parallelize_module takes it."""
EPILOG = """\
examples:
  retrograd shard plan gpt.py:setup --devices 8
  retrograd shard plan gpt.py:setup --devices 8 --strategy fsdp --optimizer sgd
  retrograd shard plan gpt.py:setup --devices 64 --memory-gb 80 --bandwidth-gb 200

gpt.py:
  import torch
  from torch import nn

  class Model(nn.Module):
      ...
      def forward(self, ids, targets):
          return nn.functional.cross_entropy(self.layers(ids).flatten(0, 1), targets.flatten())

  def setup():
      ids = torch.empty(64, 1024, dtype=torch.int64)
      return Model(), (ids, ids)

The strategies are explained in docs/devices.md."""


# fmt: off
def add_to(commands: Any) -> None:
    """Add the command to a parser's others."""
    shard = commands.add_parser(
        "shard", help=ABOUT, allow_abbrev=False, usage="retrograd shard plan MODEL [options]",
        description=f"{ABOUT.capitalize()}.",
    )
    shard.set_defaults(run=_incomplete)
    parts = shard.add_subparsers(title="commands", metavar="plan", prog="retrograd shard")
    plan = parts.add_parser(
        "plan", help="compare strategies: memory and traffic", description=DESCRIPTION,
        epilog=EPILOG, allow_abbrev=False,
        usage="retrograd shard plan MODEL --devices N [options]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = plan.add_argument
    add("model", metavar="MODEL", help="a file and a function in it, such as gpt.py:setup")
    add("--devices", type=_positive, metavar="N", required=True,
        help="number of devices of the mesh")
    add("--strategy", type=str.lower, choices=("all", *NAMES), default="all", metavar="NAME",
        help="all, data (whole models), fsdp (fully sharded) or tensor (split layers) "
        "(default: all)")
    add("--optimizer", type=str.lower, choices=OPTIMIZERS, default="adamw", metavar="NAME",
        help=f"{', '.join(OPTIMIZERS)} (default: adamw)")
    add("--memory-gb", type=_cost, metavar="GB",
        help="memory of a device: show which strategies fit")
    add("--bandwidth-gb", type=_cost, metavar="GB",
        help="bandwidth of a device per second: show how long the traffic takes")
    plan.set_defaults(run=run)
# fmt: on


def _incomplete(options: argparse.Namespace) -> int:
    raise UserError("specify a command: retrograd shard plan --help")


def run(options: argparse.Namespace) -> int:
    """Run the command. UserError for mistakes of the user."""
    from retrograd.pipeline import _shards

    if options.bandwidth_gb == 0:
        raise UserError("--bandwidth-gb 0: nothing could be sent")
    model, batch, plan = _made(options.model)
    names: tuple[str, ...] = NAMES if options.strategy == "all" else (options.strategy,)
    if plan is None and options.strategy == "tensor":
        raise UserError(f"{options.model} returns no plan of split layers, which the strategy "
                        "tensor needs: return model, batch, {'blocks.*.up': ColwiseParallel()}")
    names = tuple(name for name in names if plan is not None or name != "tensor")
    _check_returned(options.model, model, batch, plan)
    _check_parts(model, batch, plan, names, options.devices)
    try:
        what = _shards.measured(model, batch, plan)
    except Exception as error:
        raise UserError(f"{options.model}: the model cannot be called with the arguments without "
                        f"memory: {_said(error)}") from error  # fmt: skip
    states = _shards.STATES[options.optimizer]
    costs = [_shards.cost(name, what, options.devices, states) for name in names]
    count = sum(p.numel() for p in model.parameters())
    limit, bandwidth = (None if x is None else x * 2**30
                        for x in (options.memory_gb, options.bandwidth_gb))  # fmt: skip
    devices = f"{options.devices} device{'s' * (options.devices > 1)}"
    print(f"{type(model).__name__} of {count:,} parameters on {devices}, with {options.optimizer}: "
          "bytes on each device\n")  # fmt: skip
    print(_shards.table(costs, bandwidth) + "\n")
    for line in [*_shards.legend(bandwidth), "", *_shards.advice(costs, limit)]:
        print(textwrap.fill(line, min(_columns(), 100)))
    return 0


def _made(path: str) -> tuple[Any, Any, Any]:
    """The model, the batch and the plan that a function returns, without memory."""
    import retrograd

    file, colon, name = path.rpartition(":")
    if not (colon and name):
        raise UserError(f"{path}: give a Python file and a function in it, such as gpt.py:setup")
    if not os.path.isfile(file):
        raise UserError(f"{path}: there is no file {file}. Give a Python file and a function in "
                        "it, such as gpt.py:setup")  # fmt: skip
    before = sys.path[:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # as Python does for a script
    try:
        with _alias.installed(), retrograd.device("meta"):
            namespace = runpy.run_path(file)
            if name not in namespace:
                raise UserError(f"{file} has no function {name}")
            returned = namespace[name]()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path} fails: {_said(error)}") from error
    finally:
        sys.path[:] = before
    match returned:
        case (model, tuple() as batch):
            return model, batch, None
        case (model, tuple() as batch, plan):
            return model, batch, plan
    raise UserError(f"{path} has to return a model, a tuple of its arguments and, if layers are "
                    f"to be split, a plan; not {type(returned).__name__}")  # fmt: skip


def _said(error: Exception) -> str:
    """An error, and the line of the user's program that raised it."""
    text = f"{type(error).__name__}: {one_line(error)}"
    lines = [x for x in traceback.extract_tb(error.__traceback__)
             if not (is_own(x.filename) or x.filename.startswith("<"))]  # fmt: skip
    return f"{text} ({lines[-1].filename}:{lines[-1].lineno}: {lines[-1].line})" if lines else text


def _check_returned(path: str, model: Any, batch: Any, plan: Any) -> None:
    """Raise an error unless a function returned a model, a batch and, optionally, a plan."""
    from retrograd.distributed.tensor.parallel import ParallelStyle, is_splittable, parts_at

    if not isinstance(model, Module):
        raise UserError(f"{path} has to return a model first, not {type(model).__name__}")
    if not batch:
        raise UserError(f"{path} returns no arguments for the model")
    for x in batch:
        if not isinstance(x, Tensor):
            raise UserError(f"{path} has to return tensors as arguments, not {type(x).__name__}")
    if not isinstance(plan, (dict, NoneType)):
        raise UserError(f"{path} has to return a plan such as {{'up': ColwiseParallel()}}, not "
                        f"{type(plan).__name__}")  # fmt: skip
    for name, style in (plan or {}).items():
        if not isinstance(style, ParallelStyle):
            raise UserError(f"{path}: the plan has {style!r} for {name!r}, which is not a style "
                            "such as ColwiseParallel()")  # fmt: skip
        parts = [*parts_at(model, name)]
        if not parts:
            raise UserError(f"{path}: the model has no layer {name!r}, which the plan splits")
        for part in parts:
            if hasattr(style, "linear") and not is_splittable(part):
                raise UserError(f"{path}: the plan has {type(style).__name__}() for {name!r}, a "
                                f"{type(part).__name__}: it splits Linear and Embedding")


def _check_parts(model: Any, batch: Any, plan: Any, names: Any, devices: int) -> None:
    """Raise an error if what a strategy splits cannot be divided into equal parts."""
    from retrograd.pipeline import _shards

    sizes = {x.shape[0] for x in batch if x.ndim}
    if len(sizes) == 1 and (size := sizes.pop()) % devices and names != ("tensor",):
        raise UserError(f"a batch of {size} samples cannot be split into {devices} equal parts")
    if "tensor" in names:
        for name, parameter, dim in _shards.split_by(model, plan):
            if parameter.shape[dim] % devices:
                raise UserError(
                    f"the plan splits dimension {dim} of {name}, of shape "
                    f"{tuple(parameter.shape)}, which {devices} devices cannot share equally"
                )
