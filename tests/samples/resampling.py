"""Calls that resize images and shuffle their pixels."""

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "rs1": draw((2, 2, 4), -2, 2, 1501), "rs2": draw((2, 1, 3, 4), -2, 2, 1502),
    "rs3": draw((1, 2, 2, 3, 2), -2, 2, 1503), "rsturn": draw((4, 3, 2, 1), -2, 2, 1504).T,
    "rslarge": draw((1, 1, 9, 11), -2, 2, 1505), "rspix": draw((2, 8, 2, 3), -2, 2, 1506),
    "rsun": draw((2, 2, 4, 6), -2, 2, 1507), "rslong": draw((1, 1, 150), -2, 2, 1508),
    "rsdeep": draw((8, 2, 3), -2, 2, 1509),
}  # fmt: skip
SPECIAL = {
    "rsinf": draw((1, 2, 5, 5), -2, 2, 1510).real,
    "rsnone": draw((0, 2, 4), -2, 2, 1511).real,
}
SPECIAL["rsinf"][0, 0, 1, 1] = float("inf")
SPECIAL["rsinf"][0, 1, 3, 0] = float("nan")
FIXED = {
    "rsbyte": draw((1, 2, 3, 4), 0, 200, 1512).real.astype("uint8"),
    "rsint": draw((1, 2, 3, 4), 0, 200, 1513).real.astype("int64"),
    "rsh": draw((1, 2, 3, 4), 0, 2, 1514).real.astype("float16"),
    "rsc": draw((1, 2, 3, 4), 0, 2, 1515),
}  # fmt: skip
_F = "torch.nn.functional."
_SIZES = (
    "6; 3; 1; 4; scale_factor=2; scale_factor=1.7; scale_factor=0.6; "
    "scale_factor=1.7, recompute_scale_factor=True"
)
GROUPS = {
    "one": [
        *every(_F + "interpolate({x}, {size}, mode='{mode}')", x="rs1", size=_SIZES,
               mode="nearest; nearest-exact; linear; area"),
        *every(_F + "interpolate(rs1, {size}, mode='linear', align_corners=True)", size=_SIZES),
        *calls(f"""
            {_F}interpolate(?) <- rslong, 200, mode='linear'; rslong, 70; rslong, 40, mode='area'
            {_F}interpolate(?) <- rsnone, 6
            {_F}interpolate(?) <- rslong[..., :90], None, (1.3,), mode='linear', align_corners=True
            {_F}interpolate(?) <- rs1, [7]
        """),
    ],
    "two": [
        *every(_F + "interpolate({x}, {size}, mode='{mode}')", x="rs2; rsturn",
               size="(5, 6); 2; (1, 7); scale_factor=2; scale_factor=(1.7, 0.6)",
               mode="nearest; nearest-exact; bilinear; bicubic; area"),
        *every(_F + "interpolate(rslarge, {size}, mode='lanczos', antialias=True)",
               size="(2, 3); scale_factor=0.4; (9, 8)"),
        *every(_F + "interpolate(rslarge, {size}, mode='{mode}', antialias=True, "
                    "align_corners={align})",
               size="(4, 5); (12, 5); scale_factor=0.4; 1; (9, 11)", mode="bilinear; bicubic",
               align="True; False; None"),
        *every(_F + "interpolate({x}, {size}, mode='{mode}', align_corners=True)", x="rs2",
               size="(5, 6); 2; (1, 7); scale_factor=2.3", mode="bilinear; bicubic"),
        *calls(f"""
            {_F}interpolate(?) <- rsinf, 8; rsinf, 7, mode='bilinear'; rsinf, 3, mode='area'
            {_F}interpolate(?) <- rsbyte, 5; rsh, 5, mode='bilinear'
            {_F}interpolate(?) <- rsinf, (2, 9), mode='bilinear', align_corners=True
            {_F}interpolate(?) <- rs2, (3, 4), mode='bilinear'; rs2, (3, 4)
            {_F}upsample(?) <- rs2, 5; rs2, None, 2, 'bilinear', True
            {_F}upsample_nearest(?) <- rs2, 5; rs2, scale_factor=2
            {_F}upsample_bilinear(?) <- rs2, 5; rs2, scale_factor=2
        """),
    ],
    "three": [
        *every(_F + "interpolate({x}, {size}, mode='{mode}')", x="rs3",
               size="(3, 4, 5); 1; scale_factor=2; scale_factor=(1.7, 0.6, 1)",
               mode="nearest; nearest-exact; trilinear; area"),
        _F + "interpolate(rs3, (3, 4, 5), mode='trilinear', align_corners=True)",
    ],
    "shuffled": calls("""
        torch.pixel_shuffle(?) <- rspix, 2; rspix, 1; rsdeep, 2; rspix.transpose(2, 3), 2
        torch.pixel_shuffle(?) <- rspix[None], 2; rsinf[:, :1], 1
        torch.pixel_unshuffle(?) <- rsun, 2; rsun, 1; rsun[0], 2; rsun.mT, 2; rsun[None], 2
        torch.channel_shuffle(?) <- rspix, 2; rspix, 4; rspix, 1; rspix, 8; rsun[..., 0], 2
        torch.channel_shuffle(?) <- rspix.mT, 2
        torch.nn.functional.pixel_shuffle(rspix, 2); torch.nn.functional.pixel_unshuffle(rsun, 2)
        torch.nn.functional.channel_shuffle(rspix, 2)
    """),
}  # fmt: skip
ERRORS = calls(f"""
    {_F}interpolate(?) <- rs1, [7.]; rs2, (2., 2); rs2, (2.5, 2.5)
    {_F}interpolate(?) <- rs1; rs1, 6, 2.; rs1, 6, mode='bilinear'; rs2, 6, mode='linear'
    {_F}interpolate(?) <- rs2, 6, mode='trilinear'
    {_F}interpolate(?) <- rs1, 6, mode='trilinear'; rs1, 6, mode='bicubic'; rs3, 6, mode='bicubic'
    {_F}interpolate(?) <- rs3, 6, mode='bilinear'
    {_F}interpolate(?) <- rs1, 6, mode='foo'; mat, 6; rs1, (6, 6); rs1, scale_factor=(2., 2.)
    {_F}interpolate(?) <- rs1, 6, mode='nearest', align_corners=True
    {_F}interpolate(?) <- rs1, 6, recompute_scale_factor=True; rs1, 6, mode='linear', antialias=True
    {_F}interpolate(?) <- rs1, 0; rs1, -1; rs1[:, :0], 3
    {_F}interpolate(?) <- rs1[..., :0], 3; rs1, scale_factor=0.1; rs2, (0, 2), mode='bilinear'
    {_F}interpolate(?) <- rs2, (0, 2); rs3, (0, 2, 2), mode='trilinear'
    {_F}interpolate(?) <- rs2[:, :, :0], (2, 2), mode='bilinear'; rsint, 6
    {_F}interpolate(?) <- rsint, 6, mode='bilinear'; rsint, 6, mode='bicubic'
    {_F}interpolate(?) <- rsint[0], 6, mode='linear'; rsc, 6; rsc, 6, mode='bilinear'
    {_F}interpolate(?) <- rsc, 6, mode='bicubic'; rsc[0], 6, mode='linear'
    {_F}interpolate(?) <- rsc[0], 6; rsc[None], 6; rsc[None], 6, mode='trilinear'
    {_F}interpolate(rslarge, 2, mode='lanczos', ?) <- align_corners=True; antialias=False
    {_F}interpolate(rslarge, 2, mode='lanczos', antialias=True, align_corners=True)
    {_F}interpolate(?) <- rsc, 6, mode='bilinear', antialias=True
    {_F}interpolate(?) <- rs2, 6, mode='area', align_corners=False
    torch.pixel_shuffle(?) <- rsun, 2; mat, 2; rspix, 0; rspix, -1
    torch.pixel_unshuffle(?) <- rspix, 2; rspix.mT, 2; mat, 2; rsun, 0
    torch.channel_shuffle(?) <- mat, 2; rspix, 3; rspix, 0
""")
NOT_COMPLEX = {"interpolate|upsample": "refused, as the bad calls show"}
