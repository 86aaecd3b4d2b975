"""Defects that are known and not mended yet: entries of ``_known`` that are to go."""

from __future__ import annotations

from typing import Any


def mending(item: str, kinds: str = "", **more: Any) -> dict[str, Any]:
    return {"why": f"mending: {item}", "kinds": tuple(kinds.split()), **more}


MENDING: list[dict[str, Any]] = [
    mending("losses take wrong targets", "error", theirs="Error",
            line="multilabel_margin_loss|soft_margin_loss|huber_loss"),
    mending("instance_norm of few dimensions", "error", line="instance_norm", ours="to unpack"),
    mending("second derivatives of losses of NaN", "gradient values", theirs="nan",
            program=r"nan[\s\S]*smooth_l1_loss"),
    mending("the order in which dropout draws for expanded tensors", "values", line="manual_seed",
            program=r"dropout[\s\S]*expand"),
    mending("casts to integers look at the history of views", "error", theirs="^no error",
            ours="function that returns multiple views",
            line=r"\.(to|type)\(torch\.(u?int|bool)|\.(long|int|short|char|byte|bool)\(\)"),
    mending("higher derivatives of svdvals in single precision", "error", theirs="^no error",
            program="svdvals", ours="specified up to multiplication"),
]  # fmt: skip
