"""Calls that copy what a view shows."""

from samples._words import calls

GROUPS = {
    "copied_views": calls("""
        torch.alias_copy(?) <- mat; tran; i; none
        torch.as_strided_copy(?) <- mat, (2, 2), (1, 2); mat, (2,), (1,), 3; vec, (2, 2), (1, 1)
        torch.detach_copy(?) <- mat.detach(); i
        torch.diagonal_copy(?) <- sq; mat, 1; cube, 0, 1, 2; cube, dim1=0, dim2=2
        torch.expand_copy(?) <- row, (4, 3); mat, (2, 2, 3); sc, (2,); row, (-1, 3)
        torch.permute_copy(?) <- mat, (1, 0); cube, (2, 0, 1); tran, (0, 1)
        torch.select_copy(?) <- mat, 0, 1; cube, -1, 0; mat, dim=1, index=-1
        torch.slice_copy(?) <- mat; mat, 1, 1; vec, 0, 0, 3, 2; mat, dim=1, start=0, end=2
        torch.split_copy(?) <- mat, 1; mat, 2, 1
        torch.split_with_sizes_copy(?) <- mat, (1, 2), 1; mat, (1, 1)
        torch.squeeze_copy(?) <- row; four, 1; cube1, (0, 1); mat
        torch.t_copy(?) <- mat; vec; tran
        torch.transpose_copy(?) <- mat, 0, 1; cube, 1, -1
        torch.unbind_copy(?) <- mat; mat, 1
        torch.unfold_copy(?) <- mat, 1, 2, 1; vec, 0, 2, 1
        torch.unsqueeze_copy(?) <- mat, 0; vec, -1
        torch.view_copy(?) <- mat, (3, 2); mat, (-1,); i, (6,)
        torch.view_as_real_copy(c64); torch.view_as_complex_copy(f32[:2])
    """)
}
ERRORS = calls("""
    torch.permute_copy(mat, (0, 0)); torch.select_copy(mat, 0, 5); torch.view_copy(mat, (4,))
    torch.slice_copy(mat, 0, 0, 2, 0); torch.slice_copy(mat, 3); torch.expand_copy(mat, (2, 4))
""")
OTHER_GRAPH = {r"_copy\((?!i\b|c64|f32|mat.detach)": "a view and a copy of it, not one node"}
NOT_COMPLEX = {"(select|slice)_copy": "PyTorch does not differentiate it"}
