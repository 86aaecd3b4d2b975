"""Elements and slices picked and put by number, position or mask."""

import numpy as np

from samples._pool import draw
from samples._words import calls

FIXED = {
    "pl0": np.array([[0, 1, 0]]), "pl1": np.array([[2, 0], [1, 2]]), "pl2": np.array([[1], [0]]),
    "plrep": np.array([[0, 0, 1], [1, 0, 0]]), "pl01": np.array([0, 1]), "pl11": np.array([1, 1]),
    "plneg": np.array([-1, 0]), "plsc": np.array(0), "plone": np.array([0]),
    "pl3": np.array([[[0], [1], [0]], [[1], [1], [0]]]), "pl32": np.array([[2, 0], [1, 0]], "i4"),
    "pllong": np.array([[0], [1], [0]]), "plfar": np.array([[2]]), "plback": np.array([[-1]]),
    "plgap": np.zeros((0, 3), np.int64), "pltake": np.array([[5, -6], [0, 0]]),
}  # fmt: skip
SMOOTH = {
    "plsrc": draw((2, 3), -2, 2, 71), "pl22": draw((2, 2), -2, 2, 72),
    "pl13": draw((1, 3), -2, 2, 73), "plcube": draw((2, 3, 2), -2, 2, 74),
    "pl4": draw((2, 2), -2, 2, 75),
}  # fmt: skip
SPECIAL = {
    "plzero": np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]]),
    "pltie": np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 3.0]]),
    "plnan": np.array([[np.nan, 1.0, -np.inf], [2.0, np.nan, np.inf]]),
}

ALONG = [
    *calls("""
        mat.gather(?) <- 0, pl0; 1, pl1; 1, pl32; -1, pl1; 0, pl2; 0, pllong; 0, plrep; 0, plgap
        mat.gather(?) <- 0, iempty; dim=1, index=pl1; 1, pl1, sparse_grad=False
        torch.gather(mat, 1, pl1); tran.gather(1, pl1); step.gather(0, plrep); sc.gather(0, plsc)
        sc.gather(0, plone); vec.gather(0, plsc); vec.gather(0, at); cube.gather(1, pl3)
        cube.gather(0, pl3); cube.gather(2, pl3); none.gather(1, plgap); i.gather(1, pl1)
        k.gather(0, pl0); f16.gather(0, at); btran.gather(1, pl3); plnan.gather(1, pl1)
        mat.gather(0, pl01[:, None].expand(2, 3)); mat.gather(1, pl0.expand(2, 3))
        mat.scatter(?) <- 0, pl0, pl13; 1, pl1, pl22; 1, pl1, 2.5; 0, pl2, col; 1, pl32, pl22
        mat.scatter(?) <- 0, pl0, plsrc
        mat.scatter(?) <- 0, iempty, plsrc; 1, iempty, 2.; 1, empty.detach(), plsrc
        mat.scatter(?) <- 0, iempty, plsrc, reduce='add'; 1, iempty, 2., reduce='multiply'
        mat.scatter_add(?) <- 0, iempty, plsrc; 1, iempty, vec.detach()
        mat.scatter_reduce(?) <- 0, iempty, plsrc, 'sum'; 1, iempty, plsrc, 'amax'
        mat.detach().gather(?) <- 0, iempty; 1, iempty; -1, empty.detach()
        mat.scatter(?) <- 0, plrep, 3; 0, plgap, plsrc; dim=1, index=pl1, value=1
        mat.scatter(?) <- 1, cols, pl13[:, :2]
        mat.scatter(?) <- dim=0, index=pl2, src=col; 1, pl1, plsrc, reduce='add'; 1, pl1, plsrc
        mat.scatter(?) <- 0, pl2, True
        mat.scatter(?) <- 0, plrep, mat2, reduce='add'; 0, plrep, mat2, reduce='multiply'
        mat.scatter(?) <- 1, pl1, 2., reduce='add'; 1, pl1, 2., reduce='multiply'
        sc.scatter(0, plsc, sc2); sc.scatter(0, plone, 2.); vec.scatter(0, pl01, vec2)
        vec.scatter(0, plsc, sc); tran.scatter(1, pl1, pl22); torch.scatter(mat, 1, pl1, pl22)
        cube.scatter(1, pl3, cube2.transpose(1, 2)[:, :, :1]); i.scatter(1, pl1, i)
        i.scatter(1, pl1, 2.7)
        k.scatter(0, pl0, True); none.scatter(1, plgap, 1.); cube.scatter(2, pl3, 0.5)
        f16.scatter(0, pl01, f16)
        mat.scatter_add(?) <- 0, plrep, mat2; 1, pl1, pl22; 1, pl32, pl22; 0, plgap, plsrc
        mat.scatter_add(?) <- 1, pl1, plsrc
        mat.scatter_add(?) <- 0, pl01[:, None].expand(2, 3), mat2; dim=0, index=pl2, src=col
        mat.scatter_add(?) <- 0, pl11[:, None].expand(2, 3), mat2; 1, pl0.expand(2, 3), mat2
        torch.scatter_add(vec, 0, at, pl4.reshape(4)); sc.scatter_add(0, plsc, sc2)
        cube.scatter_add(1, pl3, plcube[:, :, :1]); cube.scatter_add(1, pl3, plcube * plsrc[0, 0])
        tran.scatter_add(0, plrep, step); i.scatter_add(0, plrep, i)
        k.scatter_add(0, plrep, k); f16.scatter_add(0, pl11, f16); sc.scatter_add(0, plone, vec[:1])
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'sum'; 'prod'; 'mean'; reduce='mean'
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'sum', include_self=False
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'prod', include_self=False
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'mean', include_self=False
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'amax'; 'amin'
        mat.scatter_reduce(0, plrep, plsrc, ?) <- 'max'; 'min'
        mat.scatter_reduce(1, pl1, plsrc, ?) <- 'sum'; 'prod'; 'mean'; 'amax', include_self=False
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'amax', include_self=False
        mat.scatter_reduce(0, plrep, mat2, ?) <- 'amin', include_self=False
        pltie.scatter_reduce(1, plrep, tied, ?) <- 'amax'; 'amin'; 'amax', include_self=False
        plzero.scatter_reduce(1, plrep, mat2, 'prod'); mat.scatter_reduce(1, plrep, plzero, 'prod')
        plzero.scatter_reduce(1, plrep, mat2, 'prod', include_self=False)
        plnan.scatter_reduce(1, plrep, mat2, ?) <- 'amax'; 'amin'; 'sum'; 'mean'
        torch.scatter_reduce(vec, 0, at[:3], vec, 'sum')
        cube.scatter_reduce(1, pl3, cube[:, :, :1], 'mean')
        i.scatter_reduce(0, plrep, i, ?) <- 'sum'; 'prod'; 'mean'; 'amax'; 'amin'
        i.scatter_reduce(0, plrep, i, ?) <- 'amax', include_self=False; 'mean', include_self=False
        f16.scatter_reduce(0, pl11, f16[:2], 'mean'); sc.scatter_reduce(0, plsc, sc2, 'prod')
        none.scatter_reduce(0, plgap, none, 'sum'); none.scatter_reduce(0, plgap, none, 'amax')
        torch.take_along_dim(?) <- mat, at; mat, pl2, 0; mat, pl2, 1; mat, pl0, 0; mat, pltake, 1
        torch.take_along_dim(?) <- mat, indices=pl1, dim=1; mat, plrep
        torch.take_along_dim(?) <- mat, torch.argsort(mat, 1), 1
        mat.take_along_dim(plback, 1)
    """),
]  # fmt: skip
SLICES = [
    *calls("""
        mat.index_select(?) <- 0, pl11; 1, at; 0, at32; 0, plsc; -1, at; dim=1, index=at; 0, iempty
        torch.index_select(tran, 1, at); sc.index_select(0, plone); sc.index_select(0, plsc)
        cube.index_select(1, at); i.index_select(1, at); none.index_select(1, at)
        gap.index_select(0, pl11)
        vec.index_select(0, at); btran.index_select(2, pl11); plnan.index_select(0, pl11)
        mat.index_add(?) <- 0, pl01, mat2; 0, pl11, mat2; 1, at[:3], mat2; 0, at32, mat2
        mat.index_add(?) <- 0, pl11, mat2, alpha=2.5; 0, plsc, row; 0, iempty, none
        mat.index_add(?) <- 0, plone, row; dim=0, index=pl11, source=mat2, alpha=-1
        torch.index_add(vec, 0, at[:3], vec); sc.index_add(0, plone, sc2)
        cube.index_add(1, at[:3], cube)
        sc.index_add(0, plsc, sc2); tran.index_add(1, at[:3], step)
        i.index_add(0, pl11, i, alpha=2)
        i.index_add(0, pl11, i, alpha=2.5); k.index_add(0, pl11, k); f16.index_add(0, pl11, f16[:2])
        none.index_add(1, at[:3], none); cube.index_add(-1, pl11, cube)
        mat.index_reduce(0, pl11, mat2, ?) <- 'prod'; 'mean'; 'amax'; 'amin'; reduce='prod'
        mat.index_reduce(0, pl11, mat2, ?) <- 'prod', include_self=False; 'mean', include_self=False
        mat.index_reduce(0, pl11, mat2, ?) <- 'amax', include_self=False; 'amin', include_self=False
        pltie.index_reduce(0, pl01, tied, 'amax'); plzero.index_reduce(1, at[:3], mat2, 'prod')
        mat.index_reduce(1, at[:3], plzero, 'prod')
        torch.index_reduce(cube, 1, at[:3], cube, 'mean')
        sc.index_reduce(0, plone, sc2, 'prod'); mat.index_reduce(0, plsc, row, 'prod')
        i.index_reduce(0, at32, i, 'mean'); i.index_reduce(0, pl11, i, 'amax', include_self=False)
        mat.clone().index_reduce_(0, pl11, mat2, 'prod')
        i.clone().index_reduce_(0, pl11, i, 'amin')
        mat.index_copy(?) <- 0, pl01, mat2; 1, at[:3], mat2; 0, plsc, row; 0, iempty, none
        mat.index_copy(?) <- 0, plone, row; dim=1, index=pl01, source=mat3[:2]
        torch.index_copy(vec, 0, at[:3], vec * 2); sc.index_copy(0, plone, sc2)
        sc.index_copy(0, plone, vec[:1]); vec.index_copy(0, plsc, sc); vec.index_copy(0, plone, sc)
        cube.index_copy(1, at[:3], cube); i.index_copy(0, pl01, i); tran.index_copy(0, pl01, step)
        mat.index_fill(?) <- 0, plone, 2.5; 1, at, 3; 0, plneg, 1; 0, plsc, 0.5; 0, iempty, 1
        mat.index_fill(?) <- 0, plone, sc; 1, at, sc; 0, plneg, sc; 0, plone, isc; 0, plone, fsc
        mat.index_fill(?) <- dim=0, index=plone, value=2; 0, plone, True
        torch.index_fill(vec, 0, at, 1); sc.index_fill(0, plone, 3.); sc.index_fill(0, plone, sc2)
        i.index_fill(0, plone, 2.5); i.index_fill(0, plone, fsc); k.index_fill(0, plone, 2)
        cube.index_fill(1, at, sc); tran.index_fill(1, at, 2)
        mat.index_put(?) <- (plone,), vec; [plneg], vec; (k,), sc; (k,), vec; (k,), vec, True
        mat.index_put(?) <- (pl11,), mat2, True; (pl11,), vec, accumulate=True; (at32,), mat2
        mat.index_put(?) <- (pl01, pl11), vec2; (pl11, pl11), vec2, accumulate=True; (plsc,), vec
        mat.index_put(?) <- (rows, cols), col, True; (pl11, pl11), sc, True; (iempty,), vec
        mat.index_put(?) <- (k.byte(),), vec; (k[:, 0], pl01[:1]), sc; indices=(plone,), values=vec
        torch.index_put(cube, (pl11,), mat.t()[None], True); cube.index_put((pl01, pl11), vec2)
        i.index_put((pl11,), iv, True); tran.index_put((pl11, pl01), vec2, True)
        mat.index_put((k,), f32[0]); k.index_put((pl11,), kv, True)
    """),
]  # fmt: skip
ELEMENTS = [
    *calls("""
        mat.take(?) <- at; rows; pltake; isc; iempty; index=at
        torch.take(tran, pltake); cube.take(pltake); empty.take(iempty); i.take(pltake)
        sc.take(plone)
        sc.take(plsc); plnan.take(at)
        mat.put(?) <- at[:3], vec; at[:3], vec, True; pltake, mat2[:, :2]; plone, sc; rows, vec2
        mat.put(?) <- at, cube2[0, :, :2], accumulate=True; iempty, empty; index=pl01, source=vec2
        torch.put(tran, pltake[0], vec2); sc.put(plone, sc2); i.put(at[:3], iv)
        i.put(at[:3], iv, True)
        mat.masked_select(?) <- k; kv; ksc; knot; mat > 0; k[:, :1]
        vec.masked_select(k); torch.masked_select(tran, k); sc.masked_select(ksc)
        sc.masked_select(kv)
        i.masked_select(k); none.masked_select(kv); plnan.masked_select(k); row.masked_select(k)
        mat.masked_scatter(?) <- k, vec; k, mat2; kv, mat2; knot, vec; ksc, mat2; k, cube
        torch.masked_scatter(vec, k, cube); tran.masked_scatter(k, vec); sc.masked_scatter(ksc, sc2)
        i.masked_scatter(k, iv); row.masked_scatter(k, mat2); none.masked_scatter(kv, vec)
    """),
]  # fmt: skip
IN_PLACE = [
    *calls("""
        torch.index_put_(mat.clone(), (plone,), vec)
        torch.index_put_(input=mat * 2, indices=(k,), values=sc)
        mat.clone().? <- scatter_(1, pl1, pl22); scatter_(1, pl1, 2.5); scatter_add_(0, plrep, mat2)
        mat.clone().? <- scatter_(0, plrep, mat2, reduce='add')
        mat.clone().? <- scatter_(0, pl2, 2., reduce='multiply')
        mat.clone().? <- scatter_reduce_(0, plrep, mat2, 'prod'); index_add_(0, pl11, mat2, alpha=2)
        mat.clone().? <- scatter_reduce_(0, plrep, mat2, 'amax', include_self=False)
        mat.clone().? <- index_copy_(0, pl01, mat2); index_fill_(1, at, 3)
        mat.clone().? <- index_fill_(0, plone, sc)
        mat.clone().? <- index_put_((pl11,), mat2, True); index_put_((k,), sc); put_(at[:3], vec)
        mat.clone().? <- put_(at[:3], vec, accumulate=True); masked_scatter_(k, vec)
        mat.clone().? <- index_put_((pl01, pl11), vec2)
        i.clone().? <- scatter_(1, pl1, i); scatter_add_(0, plrep, i); index_add_(0, pl11, i)
        i.clone().? <- index_fill_(0, plone, 7); put_(pl01, iv[:2]); masked_scatter_(k, iv)
        i.clone().? <- scatter_(1, pl1, 3); index_copy_(0, pl01, i); index_put_((pl11,), iv)
        written(mat.clone(), lambda z: z[0], ?) <- 'scatter_add_', 0, at[:3], vec
        written(mat.clone(), lambda z: z[0], ?) <- 'index_add_', 0, pl11, vec2; 'put_', pl01, vec2
        written(mat.clone(), lambda z: z.t(), ?) <- 'scatter_', 0, pl1, 2.
        written(mat.clone(), lambda z: z.t(), ?) <- 'index_fill_', 0, plone, 2.
        written(mat.clone(), lambda z: z[:, 1:], ?) <- 'masked_scatter_', k[:, 1:], mat3
    """),
]  # fmt: skip
GROUPS = {"along": ALONG, "slices": SLICES, "elements": ELEMENTS, "in_place": IN_PLACE}
ERRORS = [
    *calls("""
        empty.index_select(0, at); none.index_select(0, at); gap.index_select(0, at)
        mat.gather(?) <- 2, i; 0, i; 0, ipos; 1, at32; 1, at; 0, f64[None]; 0, plfar; 0, plback
        mat.gather(?) <- 0, k
        mat.gather(?) <- 0, torch.tensor([[0, 1, 0, 1]]); 0, 1
        sc.gather(0, isc); sc.gather(1, isc); vec.gather(0, pl2); none.gather(0, pl2)
        mat.scatter(?) <- 2, rows, 1.; 0, plfar, 1.; 0, plback, mat2; 0, rows, vec; 0, rows, 'a'
        mat.scatter(?) <- 1, torch.tensor([[0, 1, 2, 0]]), mat; 0, rows, f32[None]; 0, k, mat
        mat.scatter(?) <- 0, rows, mat2, reduce='sum'; 0, rows, 1j; 1, pllong, 1.; 0, pllong, mat2
        mat.scatter(?) <- 0, at, 1.; 0, rows, cube; 0, plfar, 1., reduce='add'
        mat.scatter_add(?) <- 2, rows, mat2; 0, plfar, mat2; 0, rows, vec; 0, rows, f32[None]
        mat.scatter_add(?) <- 0, at, mat; 1, torch.tensor([[0, 1, 2, 0]]), mat; 0, rows, 1.
        mat.scatter_reduce(?) <- 0, rows, mat2, 'add'; 2, rows, mat2, 'sum'; 0, plfar, mat2, 'sum'
        mat.scatter_reduce(?) <- 0, rows, f32[None], 'sum'; 0, rows, vec, 'sum'
        c64.scatter_reduce(0, pl01, c64, 'amax'); c64.scatter_reduce(0, pl01, c64, 'amin')
        mat.index_select(?) <- 2, at; 0, at; 0, plneg; 0, rows; 0, f64; 1, i32; 0, k[0]; 0, u8
        sc.index_select(0, isc); sc.index_select(0, pl11); none.index_select(0, plone)
        mat.index_add(?) <- 2, at, mat; 0, at, mat; 0, plneg, mat2; 0, at[:2], mat2; 0, plone, mat2
        mat.index_add(?) <- 0, pl01, mat3; 0, rows, mat2; 0, f64[:2], mat2; 0, pl01, f32[None]
        mat.index_add(?) <- 0, pl01, vec; 0, pl01, cube; 0, at32, mat2, alpha=1j; 0, plsc, vec
        sc.index_add(0, plone, vec[:1]); sc.index_add(0, pl11, vec2); vec.index_add(0, plone, sc)
        sc.index_add(0, torch.tensor([1]), sc2)
        mat.index_reduce(?) <- 0, at[:2], mat2, 'prod'; 2, at, mat, 'prod'; 0, at, mat, 'prod'
        mat.index_reduce(?) <- 0, rows, mat2, 'prod'; 0, f64[:2], mat2, 'prod'; 0, pl01, mat2, 'sum'
        mat.index_reduce(0, pl01, cube, 'prod'); c64.index_reduce(0, at32, c64[:2], 'prod')
        mat.index_copy(?) <- 2, at, mat; 0, at[:2], mat2; 0, plneg, mat2; 0, plone, mat2
        mat.index_copy(?) <- 0, pl01, mat3; 0, pl01, vec; 0, at32, mat2; 0, rows, mat2; 0, pl01, sc
        mat.index_copy(?) <- 0, pl01, torch.zeros(2, 3, dtype=torch.float16); 0, f64[:2], mat2
        mat.index_fill(?) <- 2, at, 1; 0, torch.tensor([2]), 1.; 0, at32, 1; 0, rows, 1
        mat.index_fill(?) <- 0, plone, vec
        mat.index_fill(?) <- 0, plone, 1j; 0, plone, 'a'; 0, torch.tensor([-3]), 1.; 0, f64, 1
        i.index_fill(0, plone, 1j); i.index_fill(0, plone, csc)
        mat.index_put(?) <- (torch.tensor([2]),), vec; (plone,), vec2; (f64,), vec; plone, vec
        mat.index_put(?) <- (plone, plone, plone), sc; (plone,), 1.; (None, plone), col; ([0],), vec
        mat.index_put(?) <- (plone,), f32; (kv,), sc; (pl01, at), sc
        mat.masked_select(?) <- i; k[:, :2]; u8; 1
        mat.masked_scatter(?) <- k, vec2; i, vec; k.byte(), vec; k, f32; k, 1.; k[:, :2], vec
        mat.take(?) <- torch.tensor([6]); torch.tensor([-7]); at32; f64; 1
        empty.take(plone)
        mat.put(?) <- at, mat; at, vec; torch.tensor([6]), sc; torch.tensor([-7]), vec[:1]
        mat.put(?) <- at32, vec2
        mat.put(?) <- at[:3], f32; at[:3], 1.
        torch.take_along_dim(?) <- mat, at, 0; mat, cols, 0; mat, at32[None], 1; mat, rows, 2
        torch.take_along_dim(?) <- mat, f64[None], 1; mat, torch.tensor([7]); cube, rows, 0
        torch.take_along_dim(?) <- mat, pllong, 1
        mat.scatter_(0, pl2, 1.); mat.index_add_(0, pl01, mat2); mat.clone().scatter_(0, plfar, 1.)
    """),
]  # fmt: skip

OTHER_SAVED = {
    "GatherBackward0": "knows the shape of self without keeping it",
    "TakeBackward0": "knows the shape of self without keeping it",
    "MaskedSelectBackward0": "knows the shape of self without keeping it",
    "IndexAddBackward0": "knows the shape of source without keeping it",
    "IndexCopyBackward0": "knows the shape of source without keeping it",
    "IndexPutBackward0": "an index is copied, so that later writes to it do no harm",
    "PutBackward0": "knows the shape of source without keeping it",
}
ONLY_OURS = {
    r"reduce='(add|multiply)'": "PyTorch does not differentiate scatter with reduce",
    r"index_fill\(0, plneg, sc": "PyTorch's gradient of the value knows no places from the end",
    r"tied, 'amax', include_self=False": "PyTorch's gradient is shared with a number that does not "
                                         "take part but is as large; its tangent is not",
    r"plsrc": "PyTorch's gradient of a src larger than the index has the wrong shape",
}
NOT_COMPLEX = {r"(scatter|index)_reduce": "PyTorch does not differentiate it for complex numbers"}
ROUGH = {
    r"cube\.scatter\(1|put\(pltake": "a place is written twice, and both get its gradient",
}
NO_RULE = {
    **{(name, "index"): "places are integers" for name in (
        "gather", "scatter", "scatter_number", "scatter_add", "scatter_reduce", "index_select",
        "add_slices", "index_add", "index_reduce", "index_copy", "index_fill", "index_fill_tensor",
        "take", "put")},
    ("masked_select", "mask"): "a mask has no slope",
    ("masked_scatter", "mask"): "a mask has no slope",
}  # fmt: skip
_HOLDS = "as many results as there are places where a mask holds"
NOT_BATCHED = {r"masked_select\(mat > 0\)|\.byte\(\)": _HOLDS}
_TWICE = "of several values put at one place the last stays; each gets the gradient, as in PyTorch"
NO_TANGENT = {r"^cube\.scatter\(1, pl3, cube2": _TWICE, r"^mat\.put\(pltake, mat2\[": _TWICE}
OTHER_TRANSFORM = {
    r"^(?!i\.)\w+\.scatter_reduce\(.*'(prod|max|min)'":
        "PyTorch's tangent is 0, whatever moves; ours is that of differences and of gradients",
    r"^mat\.index_select\(0, plsc\)$": "a place that is one number selects one row, as without a "
                                       "batch; PyTorch's vmap selects it twice",
}  # fmt: skip
