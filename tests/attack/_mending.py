"""Differences that are being mended: entries of ``_known`` that are to go."""

from __future__ import annotations

import re
from typing import Any

# Routines that do not return for numbers that are not finite.
HANGS = re.compile(r"linalg|svd|pinv|lstsq|qr\(|matrix_rank|eig|lobpcg|norm|cond|slogdet|det\(")


def mending(item: str, kinds: str = "", **more: Any) -> dict[str, Any]:
    return {"why": f"mending: {item}", "kinds": tuple(kinds.split()), **more}


MENDING: list[dict[str, Any]] = [
    mending("scatter with an empty index", "error", line="scatter"),
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
    mending("linalg.cross", "error", program=r"linalg\.cross"),
    mending("recording in inference mode", program="inference_mode"),
    mending("losses take wrong targets", "error", line="cross_entropy|nll_loss|ctc_loss"),
    mending("non-finite LAPACK", program="inf|nan",
            line="linalg|svd|pinv|lstsq|qr|cond|matrix_rank|eig"),
]  # fmt: skip
