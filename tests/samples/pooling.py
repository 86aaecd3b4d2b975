"""Calls of pools."""

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "po1": draw((2, 3, 7), -2, 2, 1101), "pl1s": draw((3, 7), -2, 2, 1102),
    "po2": draw((2, 2, 6, 7), -2, 2, 1103), "pl2s": draw((2, 5, 6), -2, 2, 1104),
    "pllast": draw((2, 6, 7, 2), -2, 2, 1105).transpose(0, 3, 1, 2),
    "po3": draw((1, 2, 4, 5, 4), -2, 2, 1106), "pl3s": draw((2, 4, 4, 3), -2, 2, 1107),
    "plpos": draw((2, 2, 6, 7), 0.3, 2, 1108), "plpos1": draw((2, 3, 7), 0.3, 2, 1109),
    "plpos3": draw((1, 2, 4, 5, 4), 0.3, 2, 1110),
}  # fmt: skip
SPECIAL = {
    "potie": draw((1, 1, 6, 6), -2, 2, 1111).real.round(),
    "plinf": draw((1, 2, 6, 6), -2, 2, 1112).real,
    "plno": draw((0, 2, 6, 6), -2, 2, 1113).real,
}
SPECIAL["plinf"][0, 0, :4, :4] = -float("inf")
SPECIAL["plinf"][0, 1, 1:3, 1:5] = float("nan")
SPECIAL["plinf"][0, 1, 5, 5] = float("inf")
FIXED = {
    "pli": draw((1, 2, 6, 6), -9, 9, 1114).real.astype("int64"),
    "plu": draw((1, 2, 6, 6), 0, 9, 1115).real.astype("uint8"),
    "plh": draw((1, 2, 6, 6), -9, 9, 1116).real.astype("float16"),
    "pli3": draw((2, 4, 4, 4), -9, 9, 1117).real.astype("int64"),
    "plk": draw((1, 2, 6, 6), -9, 9, 1118).real > 0,
    "plc": draw((1, 2, 6, 6), -9, 9, 1119),
    "plc3": draw((1, 4, 4, 4), -9, 9, 1120),
    "plc1": draw((2, 6), -9, 9, 1121),
}
_WAYS = (
    "2; 3; (2, 3); 2, 1; 3, 2, 1; 3, (2, 1), (1, 0); 2, 3, ceil_mode=True; 3, 2, 1, ceil_mode=True"
)
_MORE = (
    "(1, 1); (6, 7); 3, None, 1; 3, [1, 2], padding=[1, 0]; 5, 1, 2; 2, 5; 4, 3, 2, ceil_mode=True"
)
GROUPS = {
    "max": [
        *every("torch.max_pool2d({x}, {way})", x="po2; pl2s; pllast; potie",
               way=f"{_WAYS}; (1, 1); 3, None, 1; 3, [1, 2], padding=[1, 0]; 5, 1, 2"),
        *calls("""
            torch.max_pool2d(?) <- po2, 2, 1, 0, 2; po2, 3, 2, 1, (2, 1)
            torch.max_pool2d(?) <- po2, 2, dilation=3, stride=1
            torch.max_pool2d(?) <- plinf, 2; plinf, 3, 2, 1; plinf, 2, 1, 1; plno, 2; pli, 2
            torch.max_pool2d(?) <- plu, 3, 2
            torch.max_pool2d(?) <- plh, 2; pli, 3, 1, 1; po2, 2, 2, 1, 1, True; po2, kernel_size=2
            torch.max_pool2d(?) <- po2.mT, 2; po2[:, :, ::2], 2; po2, 2, (); plinf.mT, 3, 1, 1
            torch.nn.functional.max_pool2d(?) <- po2, 2, return_indices=True; pl2s, 3, 2, 1
            torch.nn.functional.max_pool2d(?) <- plinf, 3, 1, 1, return_indices=True
            torch.nn.functional.max_pool2d(?) <- potie, 3, 2, 1, 1, True, True
            torch.nn.functional.max_pool2d_with_indices(?) <- po2, 2; po2, 2, 1, 1, 1, True
            torch.max_pool1d(?) <- po1, 2; pl1s, 2; po1, 3, 2, 1; po1, 2, 1, 0, 2, True
            torch.max_pool1d(?) <- po1, (3,), (1,)
            torch.max_pool1d(?) <- po1, 2, 3, ceil_mode=True; plinf[0], 2; plinf[0], 3, 1, 1
            torch.max_pool1d(?) <- plno[:, 0], 2
            torch.max_pool1d_with_indices(?) <- po1, 2; pl1s, 3, 2, 1
            torch.nn.functional.max_pool1d(?) <- po1, 2; po1, 3, 1, 1, return_indices=True
            torch.nn.functional.max_pool1d_with_indices(po1, 2)
            torch.max_pool3d(?) <- po3, 2; pl3s, 2; po3, 3, 2, 1; po3, (2, 3, 1), 1, (1, 0, 0)
            torch.max_pool3d(?) <- pli3, 2
            torch.max_pool3d(?) <- po3, 2, 1, 0, (2, 1, 2); po3, 3, 2, 1, ceil_mode=True
            torch.nn.functional.max_pool3d(?) <- po3, 2; po3, 3, 1, 1, return_indices=True
            torch.nn.functional.max_pool3d_with_indices(po3, 2)
        """),
    ],
    "mean": [
        *every("torch.nn.functional.avg_pool2d({x}, {way})", x="po2; pl2s; pllast",
               way=f"{_WAYS}; {_MORE}; 3, 2, 1, count_include_pad=False; 2, divisor_override=3"),
        *calls("""
            torch.nn.functional.avg_pool2d(?) <- po2, 3, 2, 1, True, False; po2, 4, 3, 2, True, True
            torch.nn.functional.avg_pool2d(?) <- po2, 3, 2, 1, divisor_override=-2; plinf, 2
            torch.nn.functional.avg_pool2d(?) <- plno, 2
            torch.nn.functional.avg_pool2d(?) <- pli, 2; plh, 2; po2.mT, 2; plinf, 3, 1, 1
            torch.nn.functional.avg_pool2d(?) <- po2, 2, 3
            torch.avg_pool1d(?) <- po1, 2; pl1s, 2; po1, 3, 2, 1; po1, 3, 2, 1, True, False
            torch.avg_pool1d(?) <- po1, (2,)
            torch.avg_pool1d(?) <- po1, 2, 3, ceil_mode=True; pli[0], 2
            torch.nn.functional.avg_pool1d(po1, 2, 1)
            torch.nn.functional.avg_pool3d(?) <- po3, 2; pl3s, 2; po3, 3, 2, 1; po3, (2, 3, 1), 1
            torch.nn.functional.avg_pool3d(?) <- pli3, 2
            torch.nn.functional.avg_pool3d(?) <- po3, 3, 2, 1, True, False
            torch.nn.functional.avg_pool3d(?) <- po3, 2, divisor_override=5
            torch.nn.functional.lp_pool1d(?) <- plpos1, 2, 2; plpos1, 3, 2, 1
            torch.nn.functional.lp_pool1d(?) <- plpos1, 1, 3, None, True
            torch.nn.functional.lp_pool1d(plpos1, INF, 2)
            torch.nn.functional.lp_pool1d(?) <- plpos1, -INF, 2; plpos1, -INF, 3, 1, True
            torch.nn.functional.lp_pool2d(?) <- plpos, -INF, 2; plpos, -INF, (2, 3), 1
            torch.nn.functional.lp_pool2d(?) <- plpos, 2, 2; plpos, 3., (2, 3), 1
            torch.nn.functional.lp_pool2d(?) <- plpos, 1, 3, 2, True
            torch.nn.functional.lp_pool2d(?) <- plpos, 2.5, [2, 1]; plpos, INF, 2
            torch.nn.functional.lp_pool3d(?) <- plpos3, 2, 2; plpos3, 3., (2, 3, 1), 1
            torch.nn.functional.lp_pool3d(plpos3, INF, 2)
        """),
    ],
    "adaptive": [
        *every("torch.nn.functional.adaptive_{kind}_pool2d({x}, {size})", kind="avg; max",
               x="po2; pl2s; pllast", size="1; 2; 3; 4; (2, 5); (6, 7); (9, 8); (None, 3); (2, 1)"),
        *calls("""
            torch.nn.functional.adaptive_avg_pool2d(?) <- po2.detach(), 0; plinf, 2; plinf, 4
            torch.nn.functional.adaptive_avg_pool2d(?) <- plno, 2; plh, 2; plh, 4
            torch.nn.functional.adaptive_max_pool2d(?) <- plinf, 2; plinf, 4; plno, 2; plh, 4
            torch.nn.functional.adaptive_max_pool2d(?) <- potie, 4
            torch.nn.functional.adaptive_max_pool2d(?) <- potie, 4, True
            torch.nn.functional.adaptive_max_pool2d(?) <- plinf, 4, return_indices=True
            torch.nn.functional.adaptive_max_pool2d_with_indices(?) <- po2, 4; po2.detach(), 0
            torch.nn.functional.adaptive_max_pool2d_with_indices(?) <- pl2s.detach(), (2, 0)
            torch.nn.functional.adaptive_max_pool2d_with_indices(?) <- po2, (3, 2)
            torch.adaptive_avg_pool1d(?) <- po1, 1; po1, 3; pl1s, 4; po1, (2,); po1.detach(), 0
            torch.nn.functional.adaptive_avg_pool1d(po1, 5)
            torch.adaptive_max_pool1d(?) <- po1, 1; po1, 3; pl1s, 4; po1, (2,); po1.detach(), 0
            torch.nn.functional.adaptive_max_pool1d(?) <- po1, 5; po1, 3, True
            torch.nn.functional.adaptive_max_pool1d_with_indices(po1, 4)
            torch.nn.functional.adaptive_avg_pool3d(?) <- po3, 1; po3, 2; pl3s, 3; po3, (1, None, 3)
            torch.nn.functional.adaptive_avg_pool3d(?) <- po3, 5
            torch.nn.functional.adaptive_max_pool3d(?) <- po3, 1; po3, 2; pl3s, 3; po3, (1, None, 3)
            torch.nn.functional.adaptive_max_pool3d(?) <- po3, 5
            torch.nn.functional.adaptive_max_pool3d(po3, 3, True)
            torch.nn.functional.adaptive_max_pool3d_with_indices(po3, (2, 3, 1))
        """),
    ],
}  # fmt: skip
GROUPS = {
    name: [e for e in expressions if "ceil_mode=True, ceil_mode" not in e]
    for name, expressions in GROUPS.items()
}
ERRORS = calls("""
    torch.max_pool2d(?) <- po2, (2., 3); po2, 2.; po2, 2, (1., 1); po2, 2, 1, (0., 1); po2, '2'
    torch.nn.functional.avg_pool2d(?) <- po2, (2., 3); po2, 2, (1., 1)
    torch.max_pool1d(po1, (3.,)); torch.avg_pool1d(po1, (2.,))
    torch.nn.functional.adaptive_avg_pool2d(po2, (2., 5)); torch.adaptive_avg_pool1d(po1, (2.,))
    torch.nn.functional.adaptive_avg_pool2d(?) <- vec, (2, 2); mat, (2, 2); po2, (2,)
    torch.nn.functional.adaptive_avg_pool2d(po2, (2, 2, 2))
    torch.nn.functional.adaptive_avg_pool3d(?) <- po2, (2, 2, 2, 2); vec, (2, 2, 2)
    torch.nn.functional.adaptive_avg_pool3d(po2[0], (2, 2, 2))
    torch.nn.functional.adaptive_max_pool2d(?) <- vec, (2, 2); po2, (2,); po2, (2, 2, 2)
    torch.nn.functional.adaptive_max_pool3d(?) <- po2, (2, 2, 2, 2); vec, (2, 2, 2)
    torch.max_pool2d(po2, 2, padding=2); torch.max_pool2d(po2, 0)
    torch.max_pool2d(po2, 2, stride=0)
    torch.max_pool2d(po2, (2, 2, 2)); torch.max_pool2d(po2, 2, (1, 1, 1)); torch.max_pool2d(plk, 2)
    torch.max_pool2d(po2, 2, dilation=0); torch.max_pool2d(mat, 2); torch.max_pool2d(po2, 9)
    torch.max_pool2d(po2[:, :, :0], 2); torch.max_pool2d(po2[:, :0], 2); torch.max_pool2d(plc, 2)
    torch.max_pool2d(po2, 2, 2, (1, 1, 1)); torch.max_pool2d(po2, 2, 2, 1, (1, 1, 1))
    torch.max_pool2d(po2, 2, 2, -1); torch.max_pool2d(po2, 0, 2); torch.max_pool1d(pli[0], 2)
    torch.max_pool1d(vec, 2); torch.max_pool1d(po2, 2); torch.max_pool1d(po1, 0)
    torch.max_pool1d(po1, 9)
    torch.max_pool1d(po1, 2, padding=2); torch.max_pool1d(po1, 2, padding=-1)
    torch.max_pool1d(po1, 2, stride=0); torch.max_pool1d(po1, 2, dilation=0)
    torch.max_pool1d(plc1, 2)
    torch.max_pool1d(po1, (2, 2)); torch.max_pool1d(po1, 2, (2, 2))
    torch.max_pool1d(po1, 2, 2, (2, 2))
    torch.max_pool1d(po1, 2, 2, 1, (2, 2)); torch.max_pool1d(po1[:, :0], 2)
    torch.max_pool3d(cube, 2); torch.max_pool3d(po3, 7); torch.max_pool3d(po3, 2, padding=2)
    torch.max_pool3d(po3, 0, 2); torch.max_pool3d(po3, 2, 0); torch.max_pool3d(po3, 2, 2, -1)
    torch.max_pool3d(po3, 2, dilation=0); torch.max_pool3d(po3, (2, 2))
    torch.max_pool3d(po3, 2, (2, 2))
    torch.max_pool3d(po3, 2, 2, (2, 2)); torch.max_pool3d(po3, 2, 2, 1, (2, 2))
    torch.max_pool3d(po3[:, :, :0], 2); torch.max_pool3d(po3[:, :0], 2); torch.max_pool3d(plc3, 2)
    torch.nn.functional.avg_pool2d(?) <- po2, 2, padding=2; po2, 0; po2, 2, 0; po2, 0, 2; mat, 2
    torch.nn.functional.avg_pool2d(?) <- po2, 9
    torch.nn.functional.avg_pool2d(?) <- po2, 2, divisor_override=0; plc, 2; plu, 2; po2, (2, 2, 2)
    torch.nn.functional.avg_pool2d(?) <- po2, 2, (2, 2, 2); po2, 2, 2, (1, 1, 1); po2, 2, 2, -1
    torch.nn.functional.avg_pool2d(?) <- po3, 2
    torch.nn.functional.avg_pool2d(?) <- po2[:, :, :0], 2; po2[:, :0], 2
    torch.avg_pool1d(?) <- vec, 2; po1, 0; po1, 9; po1, 2, padding=2; po1, (2, 2); po1, 2, (2, 2)
    torch.avg_pool1d(?) <- plc1, 2
    torch.avg_pool1d(?) <- po1, 2, 2, (2, 2); po2, 2
    torch.nn.functional.avg_pool3d(?) <- cube, 2; po3, 7; po3, 0, 2; po3, 2, 0; po3, 2, 2, -1
    torch.nn.functional.avg_pool3d(?) <- plc3, 2
    torch.nn.functional.avg_pool3d(?) <- po3, 2, 2, 2; po3, (2, 2); po3, 2, (2, 2)
    torch.nn.functional.avg_pool3d(?) <- po3, 2, 2, (2, 2)
    torch.nn.functional.avg_pool3d(?) <- po3[:, :, :0], 2; po3, 2, divisor_override=0
    torch.adaptive_avg_pool1d(?) <- vec, 2; po1, -1; po1, (2, 2); po1[..., :0], 2; plc1, 2
    torch.nn.functional.adaptive_avg_pool2d(?) <- mat, 2; po2, (2, 2, 2); po2[:, :, :0], 2; po2, -1
    torch.nn.functional.adaptive_avg_pool2d(?) <- pli, 2; pli, 1; plc, 2
    torch.nn.functional.adaptive_avg_pool3d(?) <- plc3, 2; cube, 2; po3, (2, 2); po3, -1; pli3, 2
    torch.nn.functional.adaptive_avg_pool3d(po3[:, :, :0], 2)
    torch.adaptive_max_pool1d(?) <- vec, 2; po1, (2, 2); po1[..., :0], 2; po1, -1; plc1, 2
    torch.nn.functional.adaptive_max_pool2d(?) <- mat, 2; po2, (2, 2, 2); po2, -1; po2[:, :, :0], 2
    torch.nn.functional.adaptive_max_pool2d(?) <- pli, 2; plc, 2
    torch.nn.functional.adaptive_max_pool3d(?) <- pli3, 2; plc3, 2; cube, 2; po3, (2, 2); po3, -1
    torch.nn.functional.adaptive_max_pool3d(po3[:, :, :0], 2)
""")
NOT_COMPLEX = {"pool": "refused, as the bad calls show"}
OTHER_GRAPH = {r"avg_pool2d\(pllast, 1\)": "PyTorch gives the result the memory order of images"}
