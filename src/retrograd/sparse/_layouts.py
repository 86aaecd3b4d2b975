"""The layouts of tensors: strided, and the sparse ones."""

from __future__ import annotations

from retrograd.tensor._memory_formats import layout

sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = (
    layout(f"torch.sparse_{name}") for name in ("coo", "csr", "csc", "bsr", "bsc")
)
# Which of the dimensions is stored by where its slices begin, and the layout of the transpose.
COMPRESSED = {sparse_csr: 0, sparse_csc: 1, sparse_bsr: 0, sparse_bsc: 1}
TRANSPOSED = {
    sparse_coo: sparse_coo, sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}  # fmt: skip
BLOCKED = (sparse_bsr, sparse_bsc)


def spelled(name: str) -> str:
    """A layout as PyTorch's errors call it."""
    last = name.rpartition("_")[2]
    return "Sparse" if last == "coo" else f"Sparse{last.capitalize()}"
