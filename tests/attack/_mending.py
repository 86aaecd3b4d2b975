"""Differences that are being mended: entries of ``_known`` that are to go."""

from __future__ import annotations

import re
from typing import Any

# Routines that do not return for numbers that are not finite.
HANGS = re.compile(r"linalg|svd|pinv|lstsq|qr\(|matrix_rank|eig|lobpcg|norm|cond|slogdet|det\(")


def mending(item: str, kinds: str = "", **more: Any) -> dict[str, Any]:
    return {"why": f"mending: {item}", "kinds": tuple(kinds.split()), **more}


MENDING: list[dict[str, Any]] = [
    mending("casts to integers stay in the graph", "requires_grad", theirs="False", ours="True"),
    mending("casts to integers stay in the graph", "error", theirs="Autograd not support dtype"),
    mending("uint8 overflow", "error", ours="^OverflowError"),
    mending("uint8 overflow", "error", theirs="without overflow"),
    mending("uint8 overflow", "error", theirs="no error", line=r"\] = |fill|clamp",
            ours="overflow|out of bounds|cannot be converted"),
    mending("mT and H of wrong ranks", "error", line=r"\.(mT|H|mH)\b"),
    mending("writes through real and imag", "error", ours="real and imaginary"),
    mending("layout", "error", theirs="view size is not|^no error", program="view",
            ours="view size is not|^no error|must have a last dim"),
    mending("layout", "values", line=r"as_strided|flatten\(\)\.\w+_|_normal_|uniform_|view"),
    mending("layout", "values", line="manual_seed", program="permute|expand|::|mT|transpose"),
    mending("shapes of recurrent layers", "error", line="rnn_|lstm|gru"),
    mending("errors of NumPy", "error", theirs="Error", ours="could not be broadcast|to unpack"),
    mending("margin_ranking_loss", "error", line="margin_ranking_loss"),
    mending("second derivatives of losses of NaN", "gradient values", theirs="nan",
            program=r"nan[\s\S]*_loss"),
    mending("losses of complex targets", "error", line="_loss", theirs="Complex(Float|Double)"),
    mending("scatter with an empty index", "error", line="scatter"),
    mending("layout", "version", line="flatten|reshape|ravel|contiguous"),
    mending("nll_loss", "values gradient", program="nll_loss|cross_entropy|margin_loss"),
    mending("nansum", line="nansum"),
    mending("linalg.cross", "error", program=r"linalg\.cross"),
    mending("view_as_complex", "error", line="view_as_complex"),
    mending("recording in inference mode", program="inference_mode"),
    mending("in-place functions take numbers", "error", theirs="must be Tensor, not"),
    mending("losses take wrong targets", "error", line="cross_entropy|nll_loss|ctc_loss"),
    mending("non-finite LAPACK", program="inf|nan",
            line="linalg|svd|pinv|lstsq|qr|cond|matrix_rank|eig"),
    mending("inference views", "inference"),
    mending("views made without recording", "error", theirs="^no error",
            ours="A view was created in"),
]  # fmt: skip
