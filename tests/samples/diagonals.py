"""Diagonals, triangles, windows, strides, and copies with a part replaced."""

from samples._words import calls

DIAGONALS = [
    *calls("""
        mat.diagonal(?) <- ; 1; -1; 3; -2; 0, 1, 0; offset=1, dim1=0, dim2=1; 7; -7
        cube.diagonal(); cube.diagonal(0, 0, 2); cube.diagonal(dim1=-1, dim2=1); torch.diagonal(mat)
        tran.diagonal(); none.diagonal(); step.diagonal(1); btran.diagonal(0, 2, 1); i.diagonal()
        written(mat.clone(), lambda z: z.diagonal(), 'mul_', 2)
        written(mat.clone(), lambda z: z.diagonal(1), 'copy_', vec2)
        mat.diag(?) <- ; 1; -1; 3; diagonal=1; 5
        vec.diag(); vec.diag(1); vec.diag(-2); torch.diag(vec, 1); torch.diag(mat); empty.diag()
        empty.diag(1); none.diag(); tran.diag(); i.diag(); iv.diag()
        vec.diag_embed(?) <- ; 1; -1; 0, 0, 1; 0, 1, 0; offset=2
        mat.diag_embed(?) <- ; 1; 0, 0, 2; 0, -1, -3; 1, 0, 1
        torch.diag_embed(mat, 0, 0, 2); none.diag_embed(); empty.diag_embed(); tran.diag_embed(-1)
        i.diag_embed()
        mat.diagflat(); vec.diagflat(1); sc.diagflat(); torch.diagflat(mat, -1); none.diagflat()
        vec.diagflat(offset=-1); tran.diagflat(); i.diagflat()
        mat.diagonal_scatter(?) <- vec2; vec2, 1; vec2[:1], -1; vec2, 0, 1, 0; f32[:2]
        torch.diagonal_scatter(cube, mat[:, :2].t()); tran.diagonal_scatter(vec2)
        i.diagonal_scatter(iv[:2])
        mat.trace(); sq.trace(); i.trace(); torch.trace(sq); none.trace(); f16[None].trace()
        u8[None].trace()
        tran.trace(); nan.trace()
        mat.tril(?) <- ; 1; -1; 5; diagonal=-1
        cube.tril(); tran.tril(); torch.tril(mat); i.tril(); k.tril(); none.tril(); inf.tril()
        nan.triu()
        c64[None].tril(); torch.triu(mat, 1); cube.triu(-1); i.triu(1); nan.tril(); tran.triu(1)
        mat.clone().tril_(); mat.clone().triu_(1); mat.clone().tril_(diagonal=-1); i.clone().triu_()
        written(cube.clone(), lambda z: z[0], 'tril_'); mat.clone().fill_diagonal_(3.)
        torch.arange(10.).reshape(5, 2).fill_diagonal_(2, wrap=True)
        ipos.t().clone().fill_diagonal_(7, True); k.clone().fill_diagonal_(0)
        i.clone().fill_diagonal_(9)
        written(cube.clone(), lambda z: z[0], 'fill_diagonal_', 2.)
        torch.vander(?) <- vec; vec, 2; vec, 4, True; vec, increasing=True; iv; vec, 0; vec, 1
        torch.vander(?) <- empty
        torch.vander(?) <- k[0]; f16; vec, N=2; c64; edge, 4
    """),
]  # fmt: skip
VIEWS = [
    *calls("""
        mat.unfold(?) <- 1, 2, 1; 0, 2, 1; 1, 1, 2; 1, 3, 1; -1, 2, 1; 1, 0, 1
        mat.unfold(?) <- dimension=1, size=2, step=1
        sc.unfold(0, 1, 1); sc.unfold(0, 0, 1); cube.unfold(1, 2, 1); tran.unfold(1, 2, 1)
        none.unfold(1, 2, 1); i.unfold(1, 2, 1); cube.unfold(1, 1, 2); step.unfold(0, 1, 1)
        mat.unfold(0, 1, 1).unfold(1, 2, 1); mat.narrow_copy(0, 0, 1); mat.narrow_copy(1, -2, 2)
        torch.narrow_copy(tran, 1, 1, 2); i.narrow_copy(0, 1, 0)
        mat.as_strided(?) <- (2, 2), (1, 2); (2, 2), (1, 2), 1; (3,), (1,); (2, 3), (0, 1); (), ()
        mat.as_strided(?) <- (2,), (3,), 2; size=(2,), stride=(1,), storage_offset=2; (2, 2), (1, 1)
        mat[1:].as_strided((2,), (1,)); mat[1:].as_strided((2,), (1,), 0)
        mat.t().as_strided((3, 2), (1, 3))
        torch.as_strided(mat, (2,), (1,)); row.expand(2, 3).as_strided((3,), (1,))
        vec.as_strided((2, 2), (1, 1))
        mat[:, 1:].as_strided((2, 2), (2, 1)); row.expand(2, 3).as_strided((2, 3), (0, 1))
        i.as_strided((2,), (2,))
        written(mat.clone(), lambda z: z.as_strided((2,), (2,), 1), 'mul_', 2)
        mat.as_strided_scatter(?) <- vec2, (2,), (1,); vec2, (2,), (3,), 1; f32[:2], (2,), (1,)
        torch.as_strided_scatter(mat, vec2, (2,), (1,)); i.as_strided_scatter(iv[:2], (2,), (2,))
        mat.select_scatter(?) <- vec, 0, 1; vec2, 1, -1; src=vec, dim=0, index=0; f32, 0, 1
        mat.select_scatter(?) <- i[0], 0, 1
        torch.select_scatter(mat, vec, 0, 0); tran.select_scatter(vec, 0, 0)
        i.select_scatter(iv, 0, 1)
        mat.slice_scatter(?) <- row, 0, 1; mat2, 0; mat2; col, 1, 1, 2; mat2[:, :2], 1, 0, 3, 2
        mat.slice_scatter(?) <- row, 0, -1; row, 0, 1, 9; mat2[:0], 0, 2, 1; f32[None], 0, 1
        torch.slice_scatter(mat, row, dim=0, start=1); cube.slice_scatter(cube[:, :2], 1, 0, 3, 2)
    """),
]  # fmt: skip
MATRICES = [
    *calls("""
        torch.linalg.diagonal(?) <- mat; sq; cube; mat, offset=1; cube, offset=-1, dim1=0, dim2=2
        torch.linalg.diagonal(?) <- i; none; A=mat
        torch.linalg.vander(?) <- vec; vec, N=2; mat, N=4; mat; i; i32, N=3; u8, N=3; sc, N=3; none
        torch.linalg.vander(?) <- x=vec, N=5; tran; edge; c64
    """),
]  # fmt: skip
GROUPS = {"diagonals": DIAGONALS, "views": VIEWS, "matrices": MATRICES}
ERRORS = [
    *calls("""
        mat.diagonal(0, 0, 0); mat.diagonal(0, 0, 2); vec.diagonal(); sc.diagonal(); sc.diag()
        cube.diag()
        mat.diag_embed(0, 0, 0); mat.diag_embed(0, 3, 1); sc.diag_embed()
        mat.diagonal_scatter(?) <- vec; vec2, 0, 0, 0; vec2, 9; sc
        vec.trace(); cube.trace(); k.trace(); mat.tril(1.5); vec.tril(); sc.tril(); vec.triu()
        vec.clone().tril_(); mat.tril_(); vec.clone().fill_diagonal_(1)
        cube.clone().fill_diagonal_(1)
        torch.vander(mat); torch.vander(vec, -1); torch.vander(sc); torch.linalg.diagonal(vec)
        torch.linalg.vander(?) <- sc; vec, N=1; kv; f16; empty; vec, N=-1
        mat.unfold(?) <- 1, 4, 1; 1, 2, 0; 1, -1, 1; 2, 1, 1; 1, 2, -1
        mat.narrow_copy(0, 1, 2); sc.narrow_copy(0, 0, 1); mat.narrow_copy(0, 5, 1)
        sc.unfold(0, 2, 1); none.unfold(0, 1, 1)
        mat.as_strided(?) <- (2,), (3,), 3; (2, 2), (1,); (-1,), (1,); (2,), (-1,); (7,), (1,)
        mat.as_strided_scatter(vec, (2,), (1,)); mat.as_strided_scatter(vec2, (2,), (9,))
        mat.select_scatter(?) <- vec2, 0, 1; vec, 0, 5; vec, 3, 0; sc, 0, 0
        sc.select_scatter(sc2, 0, 0)
        mat.slice_scatter(?) <- vec, 0, 1; col, 1; row, 2; row, 0, 1, 2, 0; row, 0, 1, step=-1
        mat.slice_scatter(?) <- sc, 0, 1
        sc.slice_scatter(sc2)
    """),
]  # fmt: skip
OTHER_GRAPH = {
    r"^mat.*fill_diagonal_": "one write, where PyTorch writes through a view",
}
NOT_BATCHED = {
    r"^mat\[1:\]\.as_strided\(\(2,\), \(1,\), 0\)$":
        "reads memory before its entry of the batch, which vmap refuses, here and in PyTorch",
}
ROUGH = {r"mat\[.*as_strided": "reads memory around its input, which gets no gradient"}
NO_SLOPE = {"as_strided": "reads memory around its input, which differences do not show"}
ONLY_OURS = {
    r"vander": "PyTorch writes over what its nodes have saved, and then refuses",
    r"narrow_copy\(1, -2": "PyTorch's gradient knows no start from the end",
    r"as_strided_scatter": "PyTorch's gradient of self is where it was replaced, not elsewhere",
}
NOT_COMPLEX = {r"(select|slice)_scatter": "PyTorch does not differentiate it for complex numbers"}
_OUTSIDE = (
    "numbers of the base outside of the view: no gradient goes there, in PyTorch either, and "
    "so no tangent comes from there; PyTorch's tangent has a base, in which it finds some"
)
OTHER_TRANSFORM = {
    r"^sc\.unfold\(0, 0, 1\)$": "windows of no numbers: PyTorch's vmap makes them along the batch",
    r"^mat\[1:\]\.as_strided\(\(2,\), \(1,\), 0\)$": _OUTSIDE,
    r"^mat\[:, 1:\]\.as_strided\(\(2, 2\), \(2, 1\)\)$": _OUTSIDE,
}  # fmt: skip
