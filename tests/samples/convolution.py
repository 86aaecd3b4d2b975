"""Calls of the convolutions."""

from samples._pool import draw
from samples._words import calls

SMOOTH = {
    "cvx1": draw((2, 4, 7), -2, 2, 1001), "cvw1": draw((6, 4, 3), -2, 2, 1002),
    "cvw1g": draw((6, 2, 3), -2, 2, 1003), "cvw1e": draw((6, 4, 2), -2, 2, 1004),
    "cvb": draw((6,), -2, 2, 1005), "cvs1": draw((4, 7), -2, 2, 1006),
    "cvt1": draw((4, 3, 3), -2, 2, 1007), "cvbt": draw((3,), -2, 2, 1008),
    "cvx2": draw((2, 4, 5, 6), -2, 2, 1009), "cvw2": draw((6, 4, 3, 2), -2, 2, 1010),
    "cvw2g": draw((6, 2, 3, 2), -2, 2, 1011), "cvw2d": draw((4, 1, 2, 3), -2, 2, 1012),
    "cvw2p": draw((6, 4, 1, 1), -2, 2, 1013), "cvs2": draw((4, 5, 6), -2, 2, 1014),
    "cvt2": draw((4, 3, 2, 3), -2, 2, 1015), "cvt2g": draw((4, 2, 3, 2), -2, 2, 1016),
    "cvlast": draw((2, 5, 6, 4), -2, 2, 1017).transpose(0, 3, 1, 2),
    "cvturn": draw((2, 3, 4, 6), -2, 2, 1018).transpose(3, 2, 1, 0),
    "cvx3": draw((1, 2, 3, 4, 3), -2, 2, 1019), "cvw3": draw((3, 2, 2, 3, 2), -2, 2, 1020),
    "cvt3": draw((2, 2, 2, 1, 2), -2, 2, 1021), "cvs3": draw((2, 3, 4, 3), -2, 2, 1022),
    "cvmany": draw((5, 1, 4, 4), -2, 2, 1023), "cvw22": draw((2, 1, 2, 2), -2, 2, 1024),
}  # fmt: skip
SPECIAL = {
    "cvnone": draw((0, 4, 5, 6), -2, 2, 1025).real,
    "cvinf": draw((1, 4, 4, 4), -2, 2, 1026).real,
}
SPECIAL["cvinf"][0, 1, 0, 0] = float("inf")
SPECIAL["cvinf"][0, 2, 3, 3] = float("nan")
FIXED = {
    "cvi": (draw((2, 4, 5), -4, 4, 1027).real).astype("int64"),
    "cviw": (draw((3, 4, 2), -4, 4, 1028).real).astype("int64"),
    "cvh": draw((2, 4, 5, 5), -2, 2, 1029).real.astype("float16"),
    "cvhw": draw((3, 4, 2, 2), -2, 2, 1030).real.astype("float16"),
    "cvk": draw((2, 4, 5, 5), -2, 2, 1031).real > 0,
    "cvkw": draw((3, 4, 2, 2), -2, 2, 1032).real > 0,
    "cvf32": draw((6, 4, 3, 2), -2, 2, 1033).real.astype("float32"),
    "cvfb": draw((6,), -2, 2, 1034).real.astype("float32"),
}
GROUPS = {
    "one": calls("""
        torch.conv1d(?) <- cvx1, cvw1; cvx1, cvw1, cvb; cvs1, cvw1, cvb; cvx1, cvw1, None, 2
        torch.conv1d(?) <- cvx1, cvw1, cvb, stride=3, padding=2; cvx1, cvw1, dilation=2, padding=1
        torch.conv1d(?) <- cvx1, cvw1g, cvb, groups=2; cvx1, cvw1, padding='same'; cvi, cviw
        torch.conv1d(?) <- cvx1, cvw1e, cvb, padding='same'; cvx1, cvw1, padding='valid'
        torch.conv1d(?) <- cvx1, cvw1, cvb, (2,), (1,), (2,), 1; cvs1, cvw1e, padding='same'
        torch.conv1d(?) <- cvx1, cvw1, padding=4, dilation=3, stride=2; cvx1[:, :2], cvw1g, cvb
        torch.nn.functional.conv1d(cvx1, cvw1, cvb, padding=1)
        torch.conv_transpose1d(?) <- cvx1, cvt1; cvx1, cvt1, cvbt; cvs1, cvt1, cvbt
        torch.conv_transpose1d(?) <- cvi, cviw.transpose(0, 1)
        torch.conv_transpose1d(?) <- cvx1, cvt1, cvbt, 2, 1, 1; cvx1, cvt1, stride=3, padding=2
        torch.conv_transpose1d(?) <- cvx1, cvt1, dilation=2, output_padding=1; cvx1, cvt1, groups=2
        torch.conv_transpose1d(?) <- cvx1, cvt1, None, 2, 2, 2, 2, 3; cvx1, cvt1, padding=2
        torch.nn.functional.conv_transpose1d(cvx1, cvt1, stride=2)
    """),
    "two": calls("""
        torch.conv2d(?) <- cvx2, cvw2; cvx2, cvw2, cvb; cvs2, cvw2, cvb; cvx2, cvw2, cvb, 2
        torch.conv2d(?) <- cvx2, cvw2, cvb, (2, 1), (1, 2), (1, 2); cvx2, cvw2p, cvb; cvx2, cvw2p
        torch.conv2d(?) <- cvx2, cvw2, padding=1; cvx2, cvw2, padding=(2, 0), stride=(1, 3)
        torch.conv2d(?) <- cvx2, cvw2g, cvb, groups=2; cvx2, cvw2d, groups=4; cvx2, cvw2p, stride=2
        torch.conv2d(?) <- cvx2, cvw2d, None, 2, 1, 1, 4; cvx2, cvw2g, padding=1, groups=2, stride=2
        torch.conv2d(?) <- cvx2, cvw2, padding='same'; cvx2, cvw2, padding='same', dilation=2
        torch.conv2d(?) <- cvx2, cvw2, padding='valid', stride=2; cvlast, cvw2, cvb; cvx2, cvturn
        torch.conv2d(?) <- cvmany, cvw22; cvmany, cvw22, stride=2; cvmany.mT, cvw22, padding=3
        torch.conv2d(?) <- cvnone.detach(), cvw2.detach(), cvb.detach(); cvinf, cvw2; cvh, cvhw
        torch.conv2d(?) <- cvmany[:1], cvw22, stride=3
        torch.conv2d(?) <- cvmany.expand(5, 3, 4, 4), cvw22.expand(2, 3, 2, 2); cvs2, cvw2p
        torch.nn.functional.conv2d(cvx2, cvw2, cvb, padding=1)
        torch.conv_transpose2d(?) <- cvx2, cvt2; cvx2, cvt2, cvbt; cvs2, cvt2, cvbt
        torch.conv_transpose2d(?) <- cvnone.detach(), cvt2.detach()
        torch.conv_transpose2d(?) <- cvx2, cvt2, cvbt, 2, 1, 1; cvx2, cvt2, None, (2, 3), (0, 1)
        torch.conv_transpose2d(?) <- cvx2, cvt2g, groups=2; cvx2, cvt2g, cvb[:4], 2, 1, 1, 2, 2
        torch.conv_transpose2d(?) <- cvx2, cvt2, stride=(1, 2), padding=1, output_padding=(0, 1)
        torch.conv_transpose2d(?) <- cvx2, cvt2, dilation=(2, 3), output_padding=(1, 2)
        torch.conv_transpose2d(?) <- cvlast, cvt2, stride=2; cvx2, cvt2, padding=1, dilation=2
        torch.nn.functional.conv_transpose2d(cvx2, cvt2, stride=2)
        torch.convolution(?) <- cvx2, cvw2, cvb, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
        torch.convolution(?) <- cvx2, cvt2, None, [2, 2], [1, 0], [1, 1], True, [1, 0], 1
    """),
    "three": calls("""
        torch.conv3d(?) <- cvx3, cvw3; cvx3, cvw3, cvbt; cvs3, cvw3; cvx3, cvw3, cvbt, 2, 1
        torch.conv3d(?) <- cvx3, cvw3, padding='same'; cvx3, cvw3, padding=(1, 0, 2), dilation=2
        torch.conv3d(?) <- cvx3, cvw3[:, :1].expand(4, 1, 2, 3, 2), groups=2
        torch.nn.functional.conv3d(cvx3, cvw3)
        torch.conv_transpose3d(?) <- cvx3, cvt3; cvx3, cvt3, vec2; cvs3, cvt3; cvx3, cvt3, None, 2
        torch.conv_transpose3d(?) <- cvx3, cvt3, None, (2, 1, 3), 1, (1, 0, 2); cvx3, cvt3, groups=2
        torch.nn.functional.conv_transpose3d(cvx3, cvt3)
    """),
    "complex": calls("""
        torch.conv1d(?) <- cvx1 * 1j, cvw1 * (2 + 1j); cvx1 * (1 + 2j), cvw1 * 1j, cvb * 1j
        torch.conv1d(?) <- cvx1 * 1j, cvw1 * (2 + 1j), padding='same'; cvs1 * 1j, cvw1 * 1j
        torch.conv2d(?) <- cvx2 * (2 - 1j), cvw2 * 1j, cvb * 1j, 2, 1
        torch.conv2d(?) <- cvx2 * 1j, cvw2g * 1j, groups=2
        torch.conv_transpose2d(cvx2 * (2 - 1j), cvt2 * 1j, cvbt * 1j, 2, 1)
    """),
}  # fmt: skip
GROUPS["complex"] = [e.replace("groups", "None, 1, 0, 1, groups") if "cvw2g" in e else e
                     for e in GROUPS["complex"]]  # fmt: skip
ERRORS = calls("""
    torch.conv2d(cvx2, cvw2, stride=(1, 1, 1)); torch.conv2d(cvx2, cvw2, stride=0)
    torch.conv2d(cvx2, cvw2, padding=-1); torch.conv2d(cvx2, cvw2, dilation=0)
    torch.conv2d(cvx2, cvw2, padding=(1, 1, 1)); torch.conv2d(cvx2, cvw2, dilation=(1, 1, 1))
    torch.conv2d(cvx2, cvw2, groups=0); torch.conv2d(cvx2, cvw2, groups=2)
    torch.conv2d(cvx2, cvw2g[:5], groups=2); torch.conv2d(cvx2, cvw2g); cvx2.conv2d(cvw2)
    torch.conv2d(cvx2, cvw2, cvbt); torch.conv2d(cvx2, cvw2, cvb[:, None])
    torch.conv2d(cvx2, cvlast, padding=(0, 1), dilation=2); torch.conv2d(cvx2, cvw1)
    torch.conv2d(cvx1, cvw1)
    torch.conv2d(mat, cvw2); torch.conv1d(cvx2, cvw1)
    torch.conv2d(cvx2, cvf32); torch.conv2d(cvx2, cvw2, cvfb)
    torch.conv2d(cvx2, cvw2, padding='full')
    torch.conv2d(cvx2, cvw2, stride=2, padding='same'); torch.conv2d(cvk, cvkw)
    torch.conv2d(cvx2, cvw2[:0]); torch.conv2d(cvx2[:, :, :0], cvw2)
    torch.conv2d(cvx2[:, :, :0], cvw2, padding=2); torch.conv2d(cvx2, cvw2[:, :, :0])
    torch.conv2d(3, cvw2); torch.conv2d(cvx2, None); torch.conv2d(cvx2, cvw2 * 1j)
    torch.conv_transpose2d(cvx2, cvt2, output_padding=1)
    torch.conv_transpose2d(cvx2, cvt2, output_padding=(2, 0), stride=2)
    torch.conv_transpose1d(cvx1, cvt1, output_padding=1)
    torch.conv_transpose3d(cvx3, cvt3, output_padding=1)
    torch.conv_transpose2d(cvx2, cvt2, output_padding=-1); torch.conv_transpose2d(cvx2, cvt2[:3])
    torch.conv_transpose2d(cvx2, cvt2, cvb); torch.conv_transpose2d(cvx2, cvt2g, cvb, groups=2)
    torch.conv_transpose2d(cvx2[..., :1, :1], cvt2[..., :1, :1], padding=1)
    torch.conv_transpose2d(cvx2, cvt2, padding='same'); torch.conv_transpose1d(cvx2, cvt2)
    torch.convolution(cvs2, cvw2, cvb, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
""")
OTHER_GRAPH = {r"conv.*j": "PyTorch does three real convolutions; we multiply complex numbers"}
NOT_COMPLEX = {"conv": "done in the group of complex samples, since PyTorch's graph is another"}
