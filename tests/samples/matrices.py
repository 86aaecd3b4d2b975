"""Calls of products beyond the plain ones: sums of products, contractions, layers, distances."""

from importlib.util import find_spec

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "mx_v5": draw((5,), -2, 2, 701), "mx_b1": draw((4, 2, 3), -2, 2, 702),
    "mx_b2": draw((4, 3, 2), -2, 2, 703), "mx_in": draw((2, 2), -2, 2, 704),
    "mx_w": draw((4, 3), -2, 2, 705), "mx_w3": draw((4, 3, 2), -2, 2, 706),
    "mx_x": draw((5, 3), -2, 2, 707), "mx_y": draw((5, 2), -2, 2, 708),
    "mx_c": draw((4,), -2, 2, 709), "mx_many": draw((30, 3), -2, 2, 710),
    "mx_more": draw((28, 3), -2, 2, 711), "mx_deep": draw((2, 3, 4, 2), -2, 2, 712),
    "mx_h": draw((3, 2, 2, 4), -2, 2, 713),
}  # fmt: skip
SPECIAL = {
    "mx_same": np.array([[0.0, 1.0, -1.0], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]),
    "mx_nan": np.full((2, 2), np.nan), "mx_nans": np.full((2,), np.nan),
}  # fmt: skip
FIXED = {
    "mx_i": np.array([[1, 2], [3, -4]]), "mx_iv": np.array([5, -2]),
    "mx_ib": np.arange(8).reshape(2, 2, 2), "mx_k": np.array([[True, False], [True, True]]),
    "mx_f32": np.array([[1.5, 2.0], [0.25, -1.0]], np.float32),
    "mx_f16": np.array([[1.5, 2.0], [0.25, -1.0]], np.float16),
    "mx_dims": np.array([[1], [0]]),
}  # fmt: skip

VECTORS = calls("""
    torch.vdot(?) <- vec, vec; vec, mat[0]; empty, empty; iv, iv; vec2, mat3[0]; tran[0], vec
    torch.inner(?) <- vec, vec; mat, vec; mat, mat2; cube2, mat; sc, vec; vec, sc; sc, sc2
    torch.inner(?) <- mat, tran
    torch.inner(?) <- none, mat; empty, empty; iv, iv; gap, gap
    vec.vdot(vec); mat.inner(mat2); torch.ger(vec, vec2); vec.ger(vec)
    torch.kron(?) <- mat, mat3; vec, vec2; mat, vec; vec, mat; sc, mat; mat, sc; cube, mat; sc, sc2
    torch.kron(?) <- none, vec; mat, i; iv, f32; mat, mat
    mat.kron(vec)
""")
SUMS = [
    *every("torch.addmm({x}{o})",
           x="mx_in, mat, mat3; vec2, mat, mat3; sc, mat, mat3; col, mat, mat3; mx_in, tran, mat3; "
             "mx_in, mat3.t(), tran.t(); mx_in, gap, gap.t(); mx_i, mx_i, mx_i; "
             "none[:, :2], none, mat3; mat[:, :0], mx_in, gap",
           o="; , beta=0.5; , alpha=2; , beta=-1, alpha=0.5; , beta=0; , alpha=0"),
    *every("torch.addmv({x}{o})",
           x="vec2, mat, vec; sc, mat, vec; vec2, tran, vec; vec2, gap, empty; mx_iv, mx_i, mx_iv",
           o="; , beta=0.5, alpha=2; , beta=0"),
    *every("torch.addr({x}{o})",
           x="mat, vec2, vec; vec, vec2, vec; sc, vec2, vec; none, empty, vec; mx_i, mx_iv, mx_iv",
           o="; , beta=2, alpha=3; , beta=0"),
    *every("torch.baddbmm({x}{o})",
           x="cube[:, :2], cube2, cube; mx_in, cube2, cube; sc, cube2, cube; mx_ib, mx_ib, mx_ib; "
             "mx_in, btran.mT, cube; cube2[:, :, :2], cube2[:, :, :0], cube[:, :0]",
           o="; , beta=0.5, alpha=2; , beta=0"),
    *every("torch.addbmm({x}{o})",
           x="mx_in, cube2, cube; vec2, cube2, cube; sc, cube2, cube; mx_i, mx_ib, mx_ib; "
             "mx_in, btran.mT, cube; mx_in, cube2[:0], cube[:0]",
           o="; , beta=0.5, alpha=2; , beta=0"),
    *calls("""
        torch.addmm(mx_nan, mat, mat3, beta=0); torch.addmv(mx_nans, mat, vec, beta=0)
        torch.addr(mx_nan, vec2, vec2, beta=0); torch.addmm(mx_nan, mat, mat3)
        torch.addbmm(mx_nan, cube2, cube, beta=0); torch.baddbmm(mx_nan, cube2, cube, beta=0)
        torch.addr(mx_k, mx_k[0], mx_k[1]); torch.addr(mx_k, mx_k[0], mx_k[1], beta=0)
        torch.addr(mx_i, vec2, mx_iv); torch.addr(mat, vec2, f32)
        torch.addmm(mx_f16, mx_f16, mx_f16)
        torch.addmm(mx_i, mx_i, mx_i, beta=1.5); torch.addmm(mx_i, mx_i, mx_i, alpha=2.5)
        mx_in.addmm(mat, mat3); vec2.addmv(mat, vec); mat.addr(vec2, vec)
        mx_in.baddbmm(cube2, cube); mx_in.addbmm(cube2, cube)
        (mx_in * 1).addmm_(mat, mat3); (mx_in * 2).addmm_(mat, mat3, beta=0.5, alpha=3)
        (vec2 * 1).addmv_(mat, vec); (mat * 1).addr_(vec2, vec, alpha=2)
        (cube2[:, :, :2] * 1).baddbmm_(cube2, cube, beta=2); (mx_in * 1).addbmm_(cube2, cube)
        (mx_in * 1).addmm_(mx_in, mx_in); written(mx_in * 1, lambda x: x.t(), 'addmm_', mat, mat3)
        (mx_in * 1).addmm_(mat, mat3, beta=0); mx_i.addmm_(mx_i.clone(), mx_i.clone())
    """),
]  # fmt: skip
CONTRACTED = [
    *calls("""
        torch.tensordot(?) <- mat, mat3, 1; mat, mat3, ([0, 1], [1, 0]); mat, mat2, 0
        torch.tensordot(?) <- cube, cube2, 2; torch.zeros(0, 3, 1), torch.zeros(0, 1, 3), 1
        torch.tensordot(?) <- cube, mat, ([1, 0], [1, 0]); cube, mat, ((1,), (1,)); vec, vec, 1
        torch.tensordot(?) <- mat, mat3, mx_dims; cube, cube2, ([0, 1], [0, 2]); sc, mat, 0
        torch.tensordot(?) <- col, mat3, ([1], [0]); mat, row, ([1], [0]); none, mat3, 1; i, i, 0
        torch.tensordot(?) <- mat, mat3, dims=1; four, cube, ([2, 3], [1, 2]); vec, vec, ([0], [0])
        torch.tensordot(?) <- mat, mat2, 2; gap, gap, ([1], [1]); tran, mat3, 1
        torch.tensordot(?) <- cube, mat, ([-2], [-1]); cube, col, ([1, 2], [1, 0])
        torch.tensordot(i32[None], i32[:, None, None], ([0, 1], [0, 2]))
        torch.linalg.cross(?) <- vec, vec; mat, mat2; sq, sq, dim=0; mat, row; cube, cube, dim=1
        torch.linalg.cross(?) <- cube.mT, cube1; iv, iv; tran, mat; none, none; f16, f16; nan, mat
        torch.cross(?) <- vec, mat[0]; mat, mat2; mat3, mat3; cube, cube; sq, sq, 1; sq, sq, dim=-1
        vec.cross(mat[0]); mat.cross(mat2, dim=1)
    """),
]
EINSUM = [
    *every("torch.einsum('{e}', mat, mat3)",
           e="ij,jk->ik; ij,jk; ij,jk->ki; ij,jk->; ij,jk->j; ij,kl->ijkl; ij,kl->lk; ij,kl->; "
             "ij,ji; ij,ji->ij; ij,kl; i...,...j->i...j; ij,jk->jik; ij,...->...ij; IJ,Jk->kI"),
    *every("torch.einsum('{e}', mat)",
           e="ij; ji; ij->ji; ij->; ij->i; ij->j; i...->...i; ...->...; ...; ...->; ...j->j; "
             "ij->...ji; ba; aB; Ba"),
    *every("torch.einsum('{e}', sq)", e="ii; ii->i; ii->; ij->ji; iI; ...i"),
    *calls("""
        torch.einsum('bij,bjk->bik', cube, cube2); torch.einsum('bij,bkj->bik', cube, cube)
        torch.einsum('bij,bij->b', cube, cube); torch.einsum('bij,kj->bik', cube2, mat)
        torch.einsum('...ij,...jk->...ik', four, cube2); torch.einsum('...i,...i', cube2, mat)
        torch.einsum('...i,...i->...', mat, vec); torch.einsum('...i,i...->...', mat, vec)
        torch.einsum('bhqd,hdkb->bhqk', mx_deep, mx_h[:, :, :, :2].permute(0, 1, 2, 3))
        torch.einsum('i,i->', vec, vec); torch.einsum('i,i->i', vec, vec)
        torch.einsum('i,j', vec, vec2)
        torch.einsum('i,j->ji', vec, vec2); torch.einsum(',', sc, sc2); torch.einsum('', sc)
        torch.einsum(',i->i', sc, vec); torch.einsum('i,->', vec, sc); torch.einsum('...', sc)
        torch.einsum('iij->ij', sq.unsqueeze(2) * vec)
        torch.einsum('iji->j', sq.unsqueeze(1) * vec2[:, None])
        torch.einsum('iii->i', sq.unsqueeze(2) * vec); torch.einsum('ii,i->i', sq, vec)
        torch.einsum('ii,jj->ij', sq, sq); torch.einsum('ii,ij->j', sq, sq)
        torch.einsum('ij,jk,kl->il', mat, mat3, mat); torch.einsum('ij,j,i->', mat, vec, vec2)
        torch.einsum('ij,ij,ij->ij', mat, mat2, mat); torch.einsum('a,b,c->abc', vec, vec2, vec)
        torch.einsum('ab,bc,cd,de->ae', mat, mat3, mat, sq)
        torch.einsum('i,i,i,i->', vec, vec, vec, vec)
        torch.einsum('ab,bc,cd,de,ef,fa->', mat, mat3, mat, sq, sq, mat3)
        torch.einsum('ij,ij->ij', row, mat); torch.einsum('ij,jk->ik', col, mat3)
        torch.einsum('ij,jk->ik', mat, mat3[:1]); torch.einsum('bij,bjk->bik', cube[:1], cube2)
        torch.einsum('ij,jk->ik', none, mat3); torch.einsum('ij,jk->ik', gap, gap.t())
        torch.einsum('ij->', none); torch.einsum('ij,jk->ik', tran, mat3)
        torch.einsum('ij,kj->ik', tran, step)
        torch.einsum(' i j , j k -> i k ', mat, mat3); torch.einsum('ij,jk->ik', [mat, mat3])
        torch.einsum(mat, [0, 1], mat3, [1, 2], [0, 2]); torch.einsum(mat, [0, 1], mat3, [1, 2])
        torch.einsum(mat, [0, ...], [..., 0]); torch.einsum(sq, [0, 0]); torch.einsum(mat, [1, 0])
        torch.einsum('ij,jk->ik', i, i.t()); torch.einsum('i,i->i', iv, vec)
        torch.einsum('ij,kl', i, i)
        torch.einsum('ij,jk->ik', nan, sq); torch.einsum('ij,kl->ijkl', col, row)
    """),
]  # fmt: skip
LAYERS = calls("""
    torch.nn.functional.linear(?) <- mat, mx_w; mat, mx_w, mx_c; vec, mx_w; vec, mx_w, mx_c
    torch.nn.functional.linear(?) <- mat, vec
    torch.nn.functional.linear(?) <- cube2, mx_w; cube2, mx_w, mx_c; cube.mT, mx_w, mx_c; vec, vec
    torch.nn.functional.linear(?) <- cube.mT, mx_w; tran, mx_w, mx_c; none, mx_w, mx_c
    torch.nn.functional.linear(?) <- gap, mx_w[:, :0]
    torch.nn.functional.linear(?) <- mat, mx_w, sc; mat, mx_w, col; cube2, mx_w, mx_c[:1]; i, i
    torch.nn.functional.linear(?) <- mat, mx_w, bias=None; input=mat, weight=mx_w, bias=mx_c
    torch.nn.functional.linear(?) <- gap, mx_w[:, :0], mx_c; mat, tran
    torch.nn.functional.linear(?) <- mat, mx_w.t().contiguous().t()
    torch.nn.functional.bilinear(?) <- mx_x, mx_y, mx_w3; mx_x, mx_y, mx_w3, mx_c; vec, vec2, mx_w3
    torch.nn.functional.bilinear(?) <- vec, vec2, mx_w3, mx_c; cube2, cube2[..., :2], mx_w3, mx_c
    torch.nn.functional.bilinear(?) <- mx_x[:0], mx_y[:0], mx_w3, mx_c
    torch.bilinear(mx_x, mx_y, mx_w3, mx_c)
""")
_GRAD = "torch.enable_grad()(lambda: torch.autograd.grad"
DISTANCES = [
    *every("torch.cdist({x}, p={p})", p="0; 0.5; 1; 1.5; 2; 3; INF",
           x="mx_x, sq; mx_x, mx_same; mx_same, mx_same; cube2, cube2"),
    *calls("""
        torch.cdist(?) <- mat, sq; mat, mat; cube2, mat; four.mT, cube2; none, mat; gap, gap
        torch.cdist(?) <- tran, step; inf, inf, 0; nan, inf, 0; tied, tied2, 0
        torch.cdist(?) <- mx_x, sq, 2, 'donot_use_mm_for_euclid_dist'; mx_many, mx_more
        torch.cdist(?) <- mx_many, mat
        torch.cdist(?) <- mx_x, sq, compute_mode='use_mm_for_euclid_dist'; mx_many, mx_more, p=1
        torch.cdist(?) <- cube2, cube1, 2.0, 'use_mm_for_euclid_dist'; mx_many[None], mx_more
        torch.cdist(?) <- mx_same, mx_same, 2.0, 'use_mm_for_euclid_dist'
    """),
    *every(f"{_GRAD}((torch.cdist({{x}}) * torch.arange(1, 4)).sum(), mx_same))()",
           x="; ".join(f"mx_same, mx_same, {p}" for p in ("0", "0.5", "1", "1.5", "2", "3", "INF"))
             + "; mx_same, mx_same, 2, 'use_mm_for_euclid_dist'"),
    *every(f"{_GRAD}(torch.cdist(mx_x, sq, p={{p}}).cos().sum(), (mx_x, sq)))()",
           p="0.5; 1; 1.5; 2; 3; INF"),
]  # fmt: skip
GROUPS = {
    "vectors": VECTORS, "sums": SUMS, "contracted": CONTRACTED, "einsum": EINSUM, "layers": LAYERS,
    "distances": DISTANCES,
}  # fmt: skip
ERRORS = calls("""
    torch.vdot(?) <- vec, vec2; mat, vec; f32, f64; kv, kv; vec, 2; 2, vec
    torch.inner(?) <- vec, vec2; mat, mat3; vec, 2; f32, f64; mat, vec2
    torch.ger(mat, vec); torch.kron(vec, 2); torch.kron(2, vec)
    torch.addmm(?) <- vec, mat, mat3; mx_in, mat, mat; mx_in, vec, mat3; mx_in, mat, vec
    torch.addmm(?) <- cube, mat, mat3
    torch.addmm(?) <- mx_k, mx_k, mx_k; mx_in, mx_f32, mx_f32; mx_f32, mx_in, mx_in; 2, mat, mat3
    torch.addmm(?) <- mx_in, 2, mat3; mx_in, mx_in, mx_f32
    torch.addmv(?) <- vec, mat, vec; col, mat, vec; vec2, mat, vec2; vec2, vec, vec
    torch.addmv(?) <- mx_k[0], mx_k, mx_k[0]
    torch.addmv(?) <- vec2, mx_f32, mx_f32[0]; vec2, 2, vec
    torch.addr(?) <- sq, vec2, vec; mat, mat, vec; mat, vec, mat; mat, vec2, 2
    torch.addr(?) <- mx_i, mx_iv, mx_iv, alpha=1.5; mx_i, mx_iv, mx_iv, beta=1.5
    torch.baddbmm(?) <- mat, cube2, cube; mx_in, cube, cube; mx_in, cube2, cube[:1]
    torch.baddbmm(?) <- mx_k, mx_k[None], mx_k[None]
    torch.baddbmm(?) <- mx_in, mx_f32[None], mx_f32[None]
    torch.addbmm(?) <- mat, cube2, cube; mx_in, cube, cube; mx_in, cube2, cube[:1]
    torch.addbmm(?) <- mx_in, cube2, mat
    torch.addbmm(?) <- mx_k, mx_k[None], mx_k[None]; mx_f32, cube2, cube
    torch.addbmm(?) <- mx_in, mx_f32[None], mx_in[None]
    (vec2 * 1).addmm_(mat, mat3); (row * 1).addmm_(sq, sq); (sc * 1).addmv_(mat, vec)
    (vec * 1).addr_(vec2, vec); (mx_in * 1).baddbmm_(cube2, cube); mx_in.addmm_(mat, mat3)
    torch.tensordot(?) <- mat, mat, 1; mat, mat3, 3; mat, mat3, -1; mat, mat3, ([0, 1], [0])
    torch.tensordot(?) <- mat, mat3, 1.5
    torch.tensordot(?) <- mat, mat3, ([1, 1], [0, 0]); mat, mat3, ([2], [0]); mx_f32, mx_in, 1
    torch.linalg.cross(?) <- mat, vec; mat3, mat3; mat, mat2, dim=4; mat, mat2, dim=0; f32, f64
    torch.linalg.cross(?) <- kv, kv; 2, vec
    torch.linalg.cross(?) <- sq, mat; sc, sc2
    torch.cross(?) <- vec2, vec2; mat, vec; mat, mat2, 0; sq, mat
    torch.einsum('?', mat) <- ij,jk->ik; ij->ik; ijk; i; ii; i.j; i..j; ...i...; i1; ij->ii; ij-ji
    torch.einsum('?', mat) <- ij>ji
    torch.einsum('?', mat) <- ij->j1; ij->i->j; ij->...i...; ij->i..; ...ijk
    torch.einsum('ij,jk->ik', mat, mat); torch.einsum('ij', mat, mat); torch.einsum(2, vec)
    torch.einsum('i', 2); torch.einsum('ij'); torch.einsum(mat, [0, 53]); torch.einsum(mat, [0])
    torch.einsum('ij,jk', mx_f32, mx_in); torch.einsum('ij,jk->ik', mx_k, mx_k)
    torch.einsum('...a,...b', mat, sq)
    torch.nn.functional.linear(?) <- mat, mat3; mat, mx_w, vec; mat, vec, sc; mx_f32, mx_in
    torch.nn.functional.linear(?) <- 2, mat; sc, mat
    torch.nn.functional.linear(?) <- mat, cube; mx_f32, mx_f32, mx_in[0]; mx_in, mx_in, mx_f32[0]
    torch.nn.functional.bilinear(?) <- mx_x, mat, mx_w3; mx_x, mx_x, mx_w3; mx_y, mx_y, mx_w3
    torch.nn.functional.bilinear(?) <- vec, mx_y, mx_w3
    torch.nn.functional.bilinear(?) <- mx_x, mx_y, mx_w3, vec; f32, mx_y[0], mx_w3
    torch.cdist(?) <- vec, mat; mat, mat3; mat, mat2, p=-1; f16[None], f16[None]; i, mat
    torch.cdist(?) <- c64[None], c64[None]
    torch.cdist(?) <- mx_f32, mx_in; mat, mat2, compute_mode='x'; 2, mat
    torch.cdist(?) <- cube, four[:, 0, :, None].mT.expand(2, 3, 3, 2)
""")

OTHER_GRAPH = {
    r"kron\((?!iv)": "views that share a version counter; PyTorch's would not notice a write",
    r"tensordot.*\(\[0, 1\], \[1, 0\]\)": "a dot product also of what lies otherwise in memory",
    r"cdist\(cube2, cube1, 2.0, 'use_mm": "batches need not be expanded and copied",
    r"ab,bc,cd,de,ef": "contracted in an order that takes as little work",
}
if find_spec("opt_einsum") is None:  # with which PyTorch looks for such an order, too
    OTHER_GRAPH[r"einsum\('\w+,\w+,"] = "contracted in an order that takes as little work"
ONLY_OURS = {
    r"^torch.cdist\((?!.*((?<!donot_)use_mm|mx_many, m(ore|at)\)))":
        "PyTorch has no second derivative; first ones are compared by torch.autograd.grad",
    r"^torch.cdist\(mx_same, mx_same, 2.0, 'use_mm": "PyTorch's second derivative is NaN at zero",
    r"addr\((mx_i, vec2|mat, vec2, f32)": "PyTorch multiplies what has different dtypes, and fails",
}  # fmt: skip
NOT_COMPLEX = {
    r"bilinear": "PyTorch cannot differentiate it for complex numbers",
    r"(einsum|cross).*\bnan\b": "NumPy and C multiply complex infinities differently",
}
OTHER_TRANSFORM = {
    r"^torch\.addmm\(mx_nan, mat, mat3, beta=0\)$":
        "what counts 0 times is not read, NaN or not; PyTorch's vmap multiplies it by 0",
}  # fmt: skip
OTHER_COMPLEX = {
    r"^torch\.addmm\(mx_nan, mat, mat3\)$":
        "1 times a real NaN has no imaginary part; PyTorch's vmap multiplies by the complex 1 + 0j",
}  # fmt: skip
