"""Repeating, broadcasting, turning, splitting, stacking, grids."""

from samples._words import calls

ARRANGING = [
    *calls("""
        cube.unflatten(?) <- 1, (3, 1); 1, (1, -1); -1, [2, 1]; 0, torch.Size([2])
        cube.unflatten(?) <- dim=1, sizes=(3, 1)
        torch.unflatten(mat, 1, (3, 1)); gap.unflatten(1, (0, 2)); tran.unflatten(0, (2, 1))
        i.unflatten(1, (1, 3))
        mat.ravel(); tran.ravel(); torch.ravel(cube); sc.ravel(); none.ravel(); step.ravel()
        vec.ravel()
        torch.swapaxes(cube, 0, 2); cube.swapdims(0, -1); mat.swapdims(dim0=0, dim1=1)
        mat.swapaxes(axis0=0, axis1=1); torch.swapdims(mat, 0, 1); sc.swapdims(0, 0)
        mat.adjoint(); cube.adjoint(); torch.adjoint(mat); i.adjoint()
        mat.sum_to_size(?) <- 1, 3; 3; (2, 1); 2, 3; (); 1
        sc.sum_to_size(()); i.sum_to_size(3); cube.sum_to_size(3, 1); one.sum_to_size(1)
        tran.sum_to_size(3)
        torch.broadcast_tensors(?) <- col, row; mat, vec; sc, mat; mat; tran, vec; none, vec; i, vec
        mat.repeat(?) <- 2, 1; (2, 3); 2, 1, 3; 1, 1; 0, 1; [1, 2]
        sc.repeat(2); sc.repeat(()); sc.repeat(2, 3); none.repeat(2, 2); tran.repeat(1, 2)
        cube.repeat(1, 2, 1); step.repeat(2, 1); i.repeat(2, 1); f16.repeat(2); nan.repeat(2, 1)
        mat.tile(?) <- 2; (2, 2); 2, 1, 2; (2,); 0
        torch.tile(mat, (2,)); sc.tile(2); torch.tile(mat, (1, 2, 1)); k.tile(2)
        mat.repeat_interleave(?) <- 2; 2, 0; 2, 1; 2, dim=-1; at[:2], 0; iv, 1; torch.tensor([2]), 0
        mat.repeat_interleave(?) <- torch.tensor([2]); torch.tensor(2); 0; iv, 1, output_size=6
        mat.repeat_interleave(?) <- at32, 0
        torch.repeat_interleave(?) <- iv; at32; mat, 2, 1; mat, repeats=2; iempty; at, output_size=3
        sc.repeat_interleave(3); none.repeat_interleave(2, 1); k.repeat_interleave(2)
        vec.repeat_interleave(2)
        tran.repeat_interleave(2, 0); cube.repeat_interleave(iv, 1); vec.repeat_interleave(iv)
        i.repeat_interleave(2, 1)
        mat.fliplr(); torch.flipud(mat); mat.flipud(); torch.fliplr(none); vec.flipud()
        mat.flip((0, 1))
        mat.flip([]); torch.flip(mat, (0,)); mat.flip(()); cube.fliplr(); torch.fliplr(tran)
        mat.roll(?) <- 1; -1; 4; 1, 0; (1, 2), (0, 1); 1, -1; 0; 0, 0; (1, 1), (0, 0)
        mat.roll(?) <- shifts=1, dims=0
        mat.roll(?) <- -7, 1; (1,)
        sc.roll(1); none.roll(1, 0); torch.roll(mat, 1); tran.roll(1); cube.roll((1, -1), (0, 2))
        i.roll(1, 1)
        mat.rot90(?) <- ; 1; 2; 3; -1; 4; 0; 1, (1, 0); 1, [0, 1]; k=2, dims=(0, 1); 1, (-1, 0)
        cube.rot90(1, (0, 2)); torch.rot90(mat, 2, (0, 1)); torch.rot90(mat); tran.rot90()
        i.rot90(3)
    """),
]  # fmt: skip
JOINING = [
    *calls("""
        mat.tensor_split(?) <- 2; 2, 1; 5, 1; (1, 2), 1; (1,), -1; [0, 1, 3], 1; (), 1; (-1,), 1
        mat.tensor_split(?) <- torch.tensor([1, 2]), 1; torch.tensor(2), 1; (5, 1), 1; sections=2
        mat.tensor_split(?) <- indices=(1,), dim=1; tensor_indices_or_sections=torch.tensor(2)
        torch.tensor_split(vec, 2); none.tensor_split(2); tran.tensor_split(2, 1)
        i.tensor_split(3, 1)
        mat.hsplit(3); mat.hsplit((1, 2)); vec.hsplit(3); mat.vsplit(2); mat.vsplit([1])
        cube.dsplit(2)
        cube.dsplit([1]); torch.hsplit(vec, 1); torch.vsplit(mat, 1); torch.dsplit(cube, 1)
        torch.vsplit(mat, (0,)); cube.hsplit(3)
        mat.split_with_sizes([1, 2], 1); torch.split_with_sizes(mat, [1, 1])
        vec.split_with_sizes((3, 0))
        torch.unsafe_split(?) <- mat, 1; mat, 2, 1; none, 0; tran, 2, 1; i, 1
        torch.unsafe_chunk(?) <- mat, 2; mat, 2, 1; gap, 2, 1; i, 2
        mat.unsafe_split(1); mat.unsafe_chunk(2); mat.unsafe_split_with_sizes([1, 2], 1)
        torch.unsafe_split_with_sizes(mat, [1, 1]); torch.unsafe_split(cube, 2, dim=1)[0] * 2
        torch.atleast_1d(?) <- sc; vec; mat; sc, mat; [sc, vec]; isc
        torch.atleast_2d(?) <- sc; vec; mat; sc, mat; [sc, vec]; cube; iv
        torch.atleast_3d(?) <- sc; vec; mat; cube; sc, mat; (sc, vec); four; i
        torch.hstack(?) <- [mat, mat2]; (vec, vec2); [sc, sc2]; [mat, col]; [sc, vec]
        torch.hstack(?) <- [i, f32[None].repeat(2, 1)]
        torch.vstack(?) <- [mat, mat2]; (vec, vec); [sc, sc2]; [mat, vec]; [mat, i]; [iv, f32]
        torch.dstack(?) <- [mat, mat2]; (vec, vec); [sc, sc2]; [mat, cube]
        torch.column_stack(?) <- [mat, mat2]; (vec, vec); [sc, sc2]; [mat, vec2]; [tran, vec2]
        torch.column_stack(?) <- [iv, iv]
        torch.row_stack([mat, vec]); torch.hstack([cube, cube]); torch.vstack([tran, tran])
        torch.block_diag(?) <- mat, vec; mat, sc, mat3; mat; i, mat; none, mat; k, i; f32, f64
        torch.block_diag(?) <- mat, mat
        torch.block_diag(tran, col)
        torch.meshgrid(?) <- vec, vec2; vec, vec2, indexing='ij'; vec, vec2, indexing='xy'; vec
        torch.meshgrid(?) <- [vec, vec2, sc], indexing='ij'; vec, sc, vec2, indexing='xy'
        torch.meshgrid(?) <- iv, at32.long()
        torch.meshgrid(?) <- [vec], indexing='xy'; vec, empty, indexing='ij'
        torch.meshgrid(?) <- vec, vec, indexing='ij'
        torch.cartesian_prod(?) <- vec, vec2; vec; vec, vec2, vec; vec, empty; iv, at
        torch.combinations(?) <- vec; vec, 3; vec, 2, True; vec, r=0; vec, 4; vec, 1; empty
        torch.combinations(?) <- iv, with_replacement=True; iv, 3, True
    """),
]  # fmt: skip
GROUPS = {"arranging": ARRANGING, "joining": JOINING}
ERRORS = [
    *calls("""
        torch.rot90(mat, 2.)
        cube.unflatten(?) <- 1, (2, 2); 3, (1,); 1, (-1, -1); 1, (); 1, (-1, 2)
        sc.unflatten(0, (1,)); mat.unflatten(1, (-1, 0)); gap.unflatten(1, (-1, 0)); vec.adjoint()
        torch.swapdims(mat, 0, 2); mat.sum_to_size(2); mat.sum_to_size(4); mat.sum_to_size(1, 2, 3)
        torch.broadcast_tensors(mat, mat3); torch.broadcast_tensors(mat, 2.5)
        mat.repeat(?) <- 2; -1, 1; (2,); (); 'a'
        vec.repeat(); mat.tile(-1)
        mat.repeat_interleave(?) <- iv; -1; torch.tensor([-1, 1]), 0; f64, 1; at, 0; 2, 2; rows, 0
        mat.repeat_interleave(iv, 1, output_size=7)
        torch.repeat_interleave(?) <- rows; f64; torch.tensor([-1])
        vec.fliplr(); sc.flipud(); mat.roll((1, 2)); mat.roll(1, (0, 1)); mat.roll(1, 2)
        mat.roll((), ())
        sc.roll(1, 0); vec.roll(()); mat.roll((1, 2), ())
        mat.rot90(?) <- 1, (0, 0); 1, (0, 2); 1, (0,); 1, (0, 1, 2)
        vec.rot90(); sc.rot90()
        mat.tensor_split(?) <- 0; -1; 2, 2; torch.tensor([[1]]), 1; f64, 1
        sc.tensor_split(1); mat.hsplit(2); sc.hsplit(1); mat.vsplit(3); vec.vsplit(1); mat.dsplit(1)
        cube.dsplit(3); mat.hsplit(0); vec.hsplit(2); mat.split_with_sizes([1, 3])
        torch.unsafe_split(mat, [1, 2], 1); torch.unsafe_split(mat, 0); torch.unsafe_split(sc, 1)
        torch.unsafe_chunk(mat, 0); torch.unsafe_chunk(sc, 1)
        torch.hstack(?) <- [mat, vec]; []; mat; (i, f32[None])
        torch.vstack(?) <- []; [mat, col]; mat
        torch.dstack(?) <- []; [mat, col]; mat
        torch.column_stack(?) <- []; [mat, vec]; mat
        torch.row_stack([]); torch.block_diag(cube); torch.block_diag(mat, 2)
        torch.block_diag([mat])
        torch.meshgrid(?) <- vec, indexing='a'; ; vec, iv; vec, 2
        torch.cartesian_prod(?) <- mat; vec, sc; vec, iv; ; [vec, vec2]
        torch.combinations(?) <- vec, -1; mat; sc
    """),
]  # fmt: skip

OTHER_SAVED = {"MaskedSelectBackward0": "knows the shape of self without keeping it"}
NOT_COMPLEX = {r"adjoint": "shares memory in PyTorch, which conjugates on use"}
OTHER_TRANSFORM = {
    r"^sc\.roll\(1\)$": "PyTorch's vmap rolls the batch; an entry is one number, which stays",
}
