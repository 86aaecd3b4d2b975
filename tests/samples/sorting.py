"""Sorting, choosing the largest, different values, searching, and where things are."""

import numpy as np

from samples._words import calls

SMOOTH = {"solong": np.random.default_rng(5).permutation(40) / 7.0 + 0j}
FIXED = {
    "sodup": np.array([3, 1, 3, 2, 1, 3]), "sorows": np.array([[1, 2], [0, 5], [1, 2], [1, 1]]),
    "soruns": np.array([[1, 1, 2, 2], [1, 1, 2, 2], [2, 1, 2, 2]]), "sobig": np.arange(40) % 11,
    "sof32": np.array([2.0, np.nan, -1.0, np.nan, np.inf, 0.0], np.float32),
}  # fmt: skip
SORTING = [
    *calls("""
        torch.sort(?) <- mat; mat, 0; mat, 1, True; mat, dim=0, descending=True, stable=True
        torch.sort(?) <- mat, stable=True; sc; sc, 0; i; k; u8; nan; nan, 1, True; none; gap; f16
        torch.sort(?) <- mat, stable=False; mat, descending=True; tied; tied, 1, True; tran; cube, 1
        torch.sort(?) <- sodup; sodup, descending=True; sof32; sof32, 0, True; btran, 1; inf; edge
        mat.sort(); cube.sort(1, descending=True)[0]; solong.sort(); solong.sort(descending=True)
        torch.argsort(?) <- mat; mat, 0; mat, 1, True; mat, dim=0, descending=True; mat, stable=True
        torch.argsort(?) <- sc; i, stable=True, dim=0; tied; tied, -1, True; tran; none; sof32
        mat.argsort(0); k.argsort(descending=True); torch.msort(mat); sc.msort(); cube.msort()
        i.msort()
        torch.topk(?) <- mat, 2; mat, 1, 0; mat, 2, 1, False; mat, 2, largest=False; mat, 3; sc, 1
        torch.topk(?) <- mat, 0; i, 2; nan, 2; nan, 2, largest=False; none, 2; gap, 0; cube, 2, 1
        torch.topk(?) <- mat, k=2, dim=1, largest=True, sorted=True; tran, 1; f16, 2; u8, 1
        solong.topk(3); solong.topk(3, largest=False); solong.reshape(2, 20).topk(2)
        solong.reshape(2, 20).topk(1, 1, False); solong.reshape(20, 2).topk(2, 0); solong.topk(20)
        sobig.topk(5)[0]; sobig.topk(2, largest=False)[0]; sof32.topk(3)[0]
        sof32.repeat(8).topk(3, largest=False)[0]; sof32.repeat(8).topk(3)[0]
    """),
]  # fmt: skip
DIFFERENT = [
    *calls("""
        torch.unique(?) <- i; i, return_inverse=True; i, return_counts=True; i, True, True, True
        torch.unique(?) <- i, dim=0; i, dim=1, return_inverse=True, return_counts=True; sodup
        torch.unique(?) <- sodup, True, True, True; sorows, dim=0
        torch.unique(?) <- sorows, dim=0, return_inverse=True
        torch.unique(?) <- sorows, dim=1, return_counts=True; tied; iempty; k; u8, True, True, True
        torch.unique(?) <- sof32; sorows, True, True, True, 0; iempty, return_inverse=True
        torch.unique(?) <- sobig, True, True, True; sodup * 1000, True, True, True
        torch.unique(?) <- i8, True, True, True
        torch.unique(?) <- sodup.int(), return_counts=True; sodup - 2, return_inverse=True
        torch.unique(?) <- sorows, dim=-1; isc; isc, return_inverse=True; sodup, sorted=True; mat
        torch.unique(?) <- mat, dim=0; mat, return_inverse=True
        i.unique(return_inverse=True); none.unique(dim=0); gap.unique(dim=1); sc.unique()
        torch.unique_consecutive(?) <- i; soruns; soruns, True, True; soruns, dim=0; soruns, dim=1
        torch.unique_consecutive(?) <- soruns, dim=1, return_inverse=True, return_counts=True
        torch.unique_consecutive(?) <- soruns, dim=0, return_inverse=True; iempty; sof32; k; tied
        torch.unique_consecutive(?) <- isc
        torch.unique_consecutive(?) <- sodup, return_counts=True; none, dim=0; iempty, True, True
        tied.unique_consecutive(return_counts=True); mat.unique_consecutive()
    """),
]  # fmt: skip
SEARCHING = [
    *calls("""
        torch.searchsorted(?) <- f64.sort()[0], 1.; edge, mat; edge, mat, right=True; edge, 0.0
        torch.searchsorted(?) <- edge, mat, side='right'; edge, mat, side='left'; edge, sc
        torch.searchsorted(?) <- edge, 0.0, right=True; edge, mat, out_int32=True; edge, i
        torch.searchsorted(?) <- edge, f32
        torch.searchsorted(?) <- tied2.sort()[0], mat; iv.sort()[0], iv; edge, nan; empty, vec
        torch.searchsorted(?) <- edge, vec, sorter=torch.tensor([0, 1, 2, 3, 4]); iempty, 3
        torch.searchsorted(?) <- vec, vec2, sorter=torch.argsort(vec); edge, True; iv.sort()[0], 1.5
        torch.searchsorted(?) <- cube.sort()[0], cube; edge, none; u8.sort()[0], 5
        torch.searchsorted(?) <- sorows.sort()[0], sorows, right=True; f32.sort()[0], f64
        torch.searchsorted(?) <- mat.sort()[0], mat, sorter=torch.tensor([[0, 1, 2], [0, 1, 2]])
        torch.searchsorted(?) <- gap, gap
        torch.bucketize(?) <- mat, edge; mat, edge, right=True; 1.0, edge; sc, edge; i, iv.sort()[0]
        torch.bucketize(?) <- mat, edge, out_int32=True; i, edge; mat, f32.sort()[0]; none, edge
        torch.bucketize(?) <- mat, empty; input=mat, boundaries=edge; 2, edge
    """),
]  # fmt: skip
PLACES = [
    *calls("""
        mat.nonzero(); mat.nonzero(as_tuple=True); sc.nonzero(); sc.nonzero(as_tuple=True)
        zero.nonzero(); zero.nonzero(as_tuple=True); torch.nonzero(k)
        torch.nonzero(i, as_tuple=True)
        none.nonzero(); none.nonzero(as_tuple=True); cube.nonzero(as_tuple=False); nan.nonzero()
        tran.nonzero(); gap3.nonzero(); torch.argwhere(k); sc.argwhere(); none.argwhere()
        i.argwhere()
        torch.argwhere(cube); kempty.nonzero(); torch.unravel_index(sodup, (2, 3))
        torch.unravel_index(sorows, (3, 2, 1)); torch.unravel_index(isc, torch.Size([5]))
        torch.unravel_index(sodup, 6)
        torch.nn.functional.one_hot(?) <- iv; iv, 5; ipos; iempty, 3; isc; iv, -1; iv, num_classes=4
    """),
]  # fmt: skip
GROUPS = {"sorting": SORTING, "different": DIFFERENT, "searching": SEARCHING, "places": PLACES}
ERRORS = [
    *calls("""
        torch.topk(mat, 2.)
        torch.sort(?) <- mat, 2; sc, 1; c64; mat, True
        torch.argsort(?) <- c64; mat, 3
        torch.topk(?) <- mat, 4; mat, -1; mat, 2, 2; none, 1, 0; c64, 1; k, 1; sc, 2
        torch.unique(?) <- c64; none, dim=1; i, dim=2
        torch.unique_consecutive(?) <- c64; i, dim=2
        torch.searchsorted(?) <- edge, mat, side='left', right=True; tied2, vec; cube, mat
        torch.searchsorted(?) <- edge, mat, side='x'; vec, vec2, sorter=at[:2]
        torch.searchsorted(?) <- vec, vec2, sorter=f64
        torch.searchsorted(?) <- vec, vec2, sorter=torch.tensor([0, 1, 3]); sc, vec; c64, c64
        torch.searchsorted(?) <- edge, c64; edge, 1j
        torch.bucketize(mat, tied); torch.unravel_index(f64, (2, 3))
        torch.unravel_index(iv, (-2, 3))
        torch.nn.functional.one_hot(?) <- iv, 3; back; iempty; f64; at32; iv, 0; k
    """),
]  # fmt: skip

NOT_COMPLEX = {
    r"sort|topk|unique|nonzero_|searchsorted|bucketize": "complex numbers have no order",
}
ROUGH = {r"unique": "refuses to be differentiated, as in PyTorch"}
NO_SLOPE = dict.fromkeys(
    ("unique", "unique_dim", "unique_consecutive"), "refuses to be differentiated, as PyTorch"
)
NOT_BATCHED = {
    r"argwhere": "as many results as there are values that are not zero",
    r"one_hot\(\w+(, -1)?\)": "as many classes as the largest value says, of all entries",
}
OTHER_TRANSFORM = {
    r"(sc|none)\.argwhere\(\)|argwhere\(cube\)":
        "how many places there are depends on values, as for nonzero, which PyTorch's vmap refuses "
        "too; this one it runs entry by entry",
}  # fmt: skip
