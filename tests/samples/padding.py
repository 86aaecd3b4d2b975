"""Calls that put frames around images."""

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "pd1": draw((2, 2, 4), -2, 2, 1401), "pd2": draw((2, 1, 3, 4), -2, 2, 1402),
    "pd3": draw((1, 2, 3, 2, 4), -2, 2, 1403), "pdturn": draw((2, 4, 3, 1), -2, 2, 1404).T,
}  # fmt: skip
SPECIAL = {"pdinf": draw((1, 2, 4), -2, 2, 1405).real, "pdnone": draw((0, 2, 4), -2, 2, 1406).real}
SPECIAL["pdinf"][0, 0, 1] = float("inf")
SPECIAL["pdinf"][0, 1, 3] = float("nan")
FIXED = {
    "pdi": draw((2, 2, 4), -9, 9, 1407).real.astype("int64"),
    "pdk": draw((2, 2, 4), -9, 9, 1408).real > 0,
    "pdh": draw((2, 2, 4), -9, 9, 1409).real.astype("float16"),
}
_PAD = "torch.nn.functional.pad"
GROUPS = {
    "constant": calls(f"""
        {_PAD}(?) <- mat, (1, 1); mat, (1, 2), value=2.5; mat, (-1, 1, 1, 0); mat, (); mat, (0, 0)
        {_PAD}(?) <- vec, (2, 0)
        {_PAD}(?) <- mat, (-1, -1); mat, (-3, 0); mat, (0, 0, 1, 1), 'constant', -1; sc, ()
        {_PAD}(?) <- tran, (1, 0, 0, 2)
        {_PAD}(?) <- cube, [1, 0, 0, 1, 2, -1]; four, (1, 1, 0, 0, 1, 0, 0, 1); none, (1, 1)
        {_PAD}(?) <- gap, (1, 0), value=3.
        {_PAD}(?) <- mat, (1, 1), value=INF; mat, (1, 0), value=NAN; inf, (1, 1); i, (1, 1)
        {_PAD}(?) <- i, (1, 0), value=2.5; k, (1, 1)
        {_PAD}(?) <- pdk, (1, 2), value=2.5; f16, (1, 1), value=0.1; f32, (1, 0), value=0.1
        {_PAD}(?) <- mat, (-1, 1), value=7; step, (1, 0, -1, 0)
        {_PAD}(?) <- mat, (2, -2); pdturn, (1, 1, -1, 0)
        {_PAD}(?) <- mat, pad=(1, 1), mode='constant', value=None; c64, (1, 1)
        torch.constant_pad_nd(?) <- mat, (1, 1); mat, (1, -1), 3; mat, [0, 1], value=2
    """),
    "own": [
        *every(_PAD + "({x}, mode='{mode}')", mode="reflect; replicate; circular",
               x="pd1, (1, 2); pd1, (3, 0); pd1, (-1, 2); mat, (1, 1); mat[None], (2, 1); "
                 "pd1, (0, 0); pd2, (1, 2, 0, 1); pd2, (3, 3, 2, 2); pd2, (-1, 1, 1, -1); "
                 "pd2[0], (1, 0, 1, 1); pdturn, (0, 0, 1, 2); pd3, (1, 2, 0, 1, 2, 1); "
                 "pd3[0], (1, 1, 1, 1, 1, 1); pd3, (-1, 1, 0, 1, -1, 0); pdinf, (2, 1); "
                 "pdnone, (1, 2); pdi, (1, 2); pdh, (2, 2); pd1, (-2, -1)"),
        *calls(f"""
            {_PAD}(?) <- pd1, (6, 9), mode='replicate'; pd1, (4, 4), mode='circular'
            {_PAD}(?) <- pdk, (1, 2), mode='circular'
            {_PAD}(?) <- pd2, [1, 1, 1, 1], 'reflect', 0; pd2.mT, (1, 1, 1, 1), 'reflect', None
        """),
    ],
}  # fmt: skip
ERRORS = calls(f"""
    {_PAD}(?) <- mat, (1,); mat, (1, 1, 1, 1, 1, 1); mat, (-4, 0); mat, (1, 1), mode='foo'
    {_PAD}(?) <- mat, (-2, -2)
    {_PAD}(?) <- mat, (1, 1), mode='reflect', value=1.; vec, (1, 1), mode='reflect'
    {_PAD}(?) <- pd1, (4, 1), mode='reflect'
    {_PAD}(?) <- pd2, (4, 1, 1, 1), mode='reflect'; pd2, (1, 1, 1, 4), mode='reflect'
    {_PAD}(?) <- pd3, (4, 1, 1, 1, 1, 1), mode='reflect'
    {_PAD}(?) <- pd3, (1, 1, 1, 1, 4, 1), mode='reflect'; pd2, (1, 1), mode='reflect'
    {_PAD}(?) <- pd1, (1, 1, 1, 1, 1, 1), mode='reflect'
    {_PAD}(?) <- pd1, (-3, -2), mode='reflect'; pd1, (-3, -2), mode='replicate'
    {_PAD}(?) <- pd1, (5, 2), mode='circular'; pd1, (-3, -2), mode='circular'
    {_PAD}(?) <- pd1[..., :0], (1, 2), mode='reflect'; pd1[..., :0], (1, 2), mode='replicate'
    {_PAD}(?) <- pd1[..., :0], (1, 2), mode='circular'
    {_PAD}(?) <- pdk, (1, 2), mode='reflect'; pdk, (1, 2), mode='replicate'; pd1, (1, 2), value=1j
    {_PAD}(?) <- pd1, [1.5, 2]; pd1, 1; sc, (1, 1)
    {_PAD}(?) <- pd2, (-3, -2, -2, -1), mode='reflect'; pd3, (0, 0, 0, 0, -3, -2), mode='replicate'
    {_PAD}(?) <- pd2, (0, 0, -4, 0), mode='replicate'
    torch.constant_pad_nd(mat, (1,)); torch.constant_pad_nd(mat, (1, 1, 1, 1, 1, 1))
    torch.constant_pad_nd(mat, 1)
""")
OTHER_GRAPH = {
    r"^(?!.*pd[ihk],).*circular": "PyTorch writes slices one by one; here it is one operation"
}
