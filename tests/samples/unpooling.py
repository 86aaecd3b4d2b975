"""Calls that take windows out of images and put them back."""

from samples._pool import draw
from samples._words import calls

SMOOTH = {
    "up1": draw((2, 3, 2), -2, 2, 1201), "up2": draw((2, 2, 2, 3), -2, 2, 1202),
    "up3": draw((1, 2, 2, 1, 2), -2, 2, 1203), "upimage": draw((2, 3, 5, 6), -2, 2, 1204),
    "upalone": draw((2, 5, 4), -2, 2, 1205), "upcolumns": draw((2, 12, 20), -2, 2, 1206),
    "upback": draw((2, 5, 6, 3), -2, 2, 1207).transpose(0, 3, 1, 2),
}  # fmt: skip
SPECIAL = {"upnone": draw((0, 3, 5, 6), -2, 2, 1208).real}
_PLACES = draw((2, 3, 6), 0, 1, 1209).real.argsort(-1)
FIXED = {
    "upat1": _PLACES[..., :2] % 4,
    "upat2": draw((2, 2, 24), 0, 1, 1210).real.argsort(-1)[..., :6].reshape(2, 2, 2, 3),
    "upat3": draw((1, 2, 16), 0, 1, 1211).real.argsort(-1)[..., :4].reshape(1, 2, 2, 1, 2),
    "upint": draw((2, 3, 5, 6), -9, 9, 1212).real.astype("int64"),
    "uplong": draw((2, 12, 20), -9, 9, 1213).real.astype("int64"),
    "upempty": draw((2, 2, 0, 3), -9, 9, 1214).real.astype("int64"),
}  # fmt: skip
FIXED["upat1"][..., 1] = (FIXED["upat1"][..., 0] + 1) % 4  # distinct
GROUPS = {
    "unpool": calls("""
        torch.nn.functional.max_unpool1d(?) <- up1, upat1, 2; up1[0], upat1[0], 2; up1, upat1, 3, 1
        torch.nn.functional.max_unpool1d(?) <- up1, upat1, 2, output_size=(5,)
        torch.nn.functional.max_unpool1d(?) <- up1, upat1, (3,), (2,), (1,), [2, 3, 4]
        torch.nn.functional.max_unpool2d(?) <- up2, upat2, 2; up2[0], upat2[0], 2
        torch.nn.functional.max_unpool2d(?) <- up2, upat2, 2, output_size=(5, 7)
        torch.nn.functional.max_unpool2d(?) <- up2, upat2, (2, 2), (3, 2), 0, (2, 2, 6, 5)
        torch.nn.functional.max_unpool2d(?) <- up2, upat2, 4, 3, 1
        torch.nn.functional.max_unpool3d(?) <- up3, upat3, 2; up3[0], upat3[0], 2
        torch.nn.functional.max_unpool3d(?) <- up3, upat3, 2, output_size=(5, 3, 4)
    """),
    "unfold": calls("""
        torch.nn.functional.unfold(?) <- upimage, 2; upimage, (2, 3); upimage, 2, 2
        torch.nn.functional.unfold(?) <- upimage, 2, 1, 1; upalone, 2
        torch.nn.functional.unfold(?) <- upimage, 2, stride=2; upimage, 3, (1, 2), (0, 1), (2, 1)
        torch.nn.functional.unfold(?) <- upback, (1, 2)
        torch.nn.functional.unfold(?) <- upnone, 2; upimage, (5, 6); upimage, 1
        torch.nn.functional.unfold(?) <- upimage.mT, 2, padding=3, stride=3
        torch.nn.functional.fold(?) <- upcolumns, (5, 6), 2; upcolumns[0], (5, 6), 2
        torch.nn.functional.fold(?) <- upcolumns, (5, 6), (1, 3)
        torch.nn.functional.fold(?) <- upcolumns, (9, 11), 2, stride=2
        torch.nn.functional.fold(?) <- upcolumns, (5, 7), (2, 3), (1, 1)
        torch.nn.functional.fold(?) <- upcolumns, (4, 6), (2, 2), 1, (1, 0), 1
        torch.nn.functional.fold(?) <- upcolumns.mT[:, :12, :12], (4, 5), 2
        torch.nn.functional.fold(?) <- upcolumns, (7, 8), 2, padding=1, stride=2
        torch.nn.functional.fold(?) <- upcolumns, (5, 6), [3, 2], 1, [1, 0]
    """),
}  # fmt: skip
ERRORS = calls("""
    torch.nn.functional.unfold(upimage, (2., 3)); torch.nn.functional.fold(upcolumns, (5., 6), 2)
    torch.nn.functional.max_unpool2d(?) <- up2, upat2 * 0 + 30, 2; up2, upat2.int(), 2
    torch.nn.functional.max_unpool2d(?) <- up2, upat2[..., :2], 2
    torch.nn.functional.max_unpool2d(?) <- mat, i, 2; up2, upat2, 2, output_size=(9, 9)
    torch.nn.functional.max_unpool2d(?) <- upat2, upat2, 2
    torch.nn.functional.max_unpool2d(?) <- up2, upat2, 2, output_size=(9, 9, 9)
    torch.nn.functional.max_unpool2d(?) <- up2[:, :, :0], upempty, 2
    torch.nn.functional.max_unpool1d(up1, upat1 * 0 + 9, 2)
    torch.nn.functional.max_unpool3d(cube, cube, 2)
    torch.nn.functional.max_unpool3d(up3, upat3 * 0 + 90, 2)
    torch.nn.functional.max_unpool2d(up2, upat2 * 0 - 30, 2)
    torch.nn.functional.unfold(?) <- mat, 2; upimage, (2, 2, 2); upimage, 7; upimage, 0
    torch.nn.functional.unfold(?) <- upimage, 2, 0; upint, 2
    torch.nn.functional.unfold(?) <- upimage, 2, stride=0; upimage, 2, padding=-1; upimage[:, :0], 2
    torch.nn.functional.fold(?) <- upcolumns, (5, 6), 0; upcolumns[:, :11], (5, 6), 2
    torch.nn.functional.fold(?) <- upcolumns, (6, 6), 2
    torch.nn.functional.fold(?) <- vec, (5, 6), 2; uplong, (5, 6), 2; upcolumns, (5, 6), 2, 0
    torch.nn.functional.fold(?) <- upcolumns, (5, 6), 2, stride=0; upcolumns, (5, 6), 2, padding=-1
    torch.nn.functional.fold(?) <- upcolumns[:, :0], (5, 6), 2
""")
NOT_COMPLEX = {"max_unpool": "refused"}
NO_RULE = {
    ("max_unpool2d", "indices"): "places", ("max_unpool3d", "indices"): "places",
}  # fmt: skip
