"""Defects that are known and not mended yet: entries of ``_known`` that are to go."""

from __future__ import annotations

from typing import Any


def mending(item: str, kinds: str = "", **more: Any) -> dict[str, Any]:
    return {"why": f"mending: {item}", "kinds": tuple(kinds.split()), **more}


MENDING: list[dict[str, Any]] = [
    mending("index_put takes values with dimensions of size 1 in front", "error",
            theirs="cannot be broadcast to indexing result", ours="^no error", line="index_put"),
    mending("view_copy asks for memory in one piece", "error", theirs="^no error",
            ours="view size is not", line="view_copy"),
    mending("hinge_embedding_loss of integers has another dtype", "dtype",
            line="hinge_embedding_loss"),
    mending("native_group_norm does not check the shape of its weight", "error",
            theirs="Expected weight to be a vector", ours="^no error", line="native_group_norm"),
    mending("errors of tensorsolve and cholesky in the words of NumPy and SciPy", "error",
            program=r"tensorsolve|cholesky\(", ours="cannot reshape array|^error: "),
    mending("batch_norm multiplies infinite weights by means of 0", "values",
            program=r"inf[\s\S]*batch_norm"),
    mending("log1p of small complex numbers loses digits, as NumPy's does", "values gradient",
            program=r"(complex|\dj)[\s\S]*log1p"),
    mending("the result of segment_reduce is a view", "error", theirs="^no error",
            ours="A view was created in no_grad", program="segment_reduce"),
    mending("affine_grid_generator tells of a wrong rank in the words of NumPy", "error",
            ours="axes don't match array", line="affine_grid_generator"),
]  # fmt: skip
