"""Calls of matrix products."""

from samples._words import calls

PRODUCTS = [
    *calls("""
        ? @ mat3 <- mat; vec; step; cube2; mat3.t(); row; none; gap3
        mat @ ? <- vec; mat3; tran.t(); cube; four; none.t(); sq
        vec @ vec; vec @ sq; sq @ vec; cube @ vec2; vec @ cube; vec2 @ cube2; cube @ cube2
        cube1 @ cube; four @ cube2; cube @ cube2[:1]; four @ mat; four @ vec2; vec @ four
        btran @ cube2; gap @ gap.t(); gap.t() @ gap; empty @ empty; gap @ empty
        cube.expand(2, 2, 3, 2) @ cube2; i @ i.t(); iv @ iv; i @ iv; mat @ mat.t(); sq @ sq
        cube.transpose(1, 2) @ cube; cube.permute(2, 0, 1) @ mat3; cube1 @ mat3
        mat @ cube1.transpose(1, 2); gap3 @ sq; gap3 @ vec; four.unsqueeze(0) @ cube2
        cube[:, :, :0] @ cube2[:, :0]; nan @ sq; inf @ mat3; torch.matmul(mat, mat3)
        torch.mm(mat, mat3); torch.mm(tran, mat3); torch.mv(mat, vec); torch.mv(tran, vec)
        torch.dot(vec, vec); torch.dot(vec, mat[0]); torch.dot(empty, empty)
        torch.bmm(cube, cube2); torch.bmm(btran, cube2); torch.bmm(cube2, cube)
        torch.bmm(cube, cube.transpose(1, 2)); torch.outer(vec, vec2); torch.outer(vec, vec)
        torch.outer(iv, iv); torch.outer(empty, vec); vec.outer(vec2); torch.outer(vec, iv)
        torch.outer(iv, f32); torch.mm(i, i.t()); torch.dot(iv, iv); torch.mm(none.t(), none)
        torch.mv(none, vec); torch.mm(gap, gap.t())
        torch.bmm(gap3, cube.transpose(1, 2)[:, :0, :].transpose(1, 2).expand(2, 3, 0)[:, :3])
    """),
]  # fmt: skip
GROUPS = {"products": PRODUCTS}
ERRORS = [
    *calls("""
        torch.mul(mat, 'a'); mat + 'a'; mat + None; torch.add(mat, [1]); mat @ mat; vec @ vec2
        mat @ vec2; vec @ mat; cube @ vec; cube @ cube; cube @ sq; sc @ vec; vec @ sc
        mat @ 2; torch.mm(vec, mat3); torch.mm(mat, vec)
        torch.mv(mat, mat3); torch.mv(vec, vec); torch.mv(mat, vec2); torch.dot(vec, vec2)
        torch.dot(mat, vec); torch.bmm(mat, cube); torch.bmm(cube, mat); torch.bmm(cube, cube)
        torch.bmm(cube, cube2[:1]); torch.outer(mat, vec); torch.outer(vec, mat); f32 @ f64
        f32[None] @ f64; f32[None] @ f64[:, None]; f32[None, None] @ f64[None, :, None]
        torch.mm(i, f32[:, None]); k @ kv; kv @ kv; c64 @ f32; torch.mm(mat, 2); torch.dot(vec, 2)
        k[None] @ k.t()[None]; k @ k.t()
    """),
]  # fmt: skip
OTHER_COMPLEX = {
    r"^(nan @ sq|inf @ mat3)$": "products of complex infinities are infinite or NaN, as the "
                                "library that multiplies the matrices of a batch has it",
}  # fmt: skip
