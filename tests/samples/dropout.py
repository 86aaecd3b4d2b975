"""Dropout. Every sample sets the seed: both libraries then drop the same elements."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

_N = "torch.nn.functional"
SMOOTH = {
    "dx": draw((4, 6), -2, 2, 601), "dseq": draw((2, 3, 4), -2, 2, 602),
    "dimg": draw((2, 3, 2, 2), -2, 2, 603), "dvol": draw((2, 2, 2, 1, 2), -2, 2, 604),
    "dturn": draw((3, 4, 5), -2, 2, 605).transpose(2, 0, 1),
}  # fmt: skip
SPECIAL = {"dinf": np.array([[np.inf, -np.inf, np.nan, 0.0]] * 2), "dvoid": np.zeros((0, 3))}
FIXED = {"dhalf": np.arange(12, dtype=np.float16).reshape(3, 4)}


def seeded(expressions: list[str]) -> list[str]:
    return [f"(torch.manual_seed({n}), {e})[1]" for n, e in enumerate(expressions)]


_ELEMENTS = calls(f"""
    {_N}.dropout(?) <- dx; dx, 0.3; dx, p=0.7, training=True; dx, 0.5, False; dx, 0.0; dx, 1.0; sc
    {_N}.dropout(?) <- dturn; tran; step, 0.2; dx.expand(2, 4, 6), 0.4; dinf; dinf, 1.0; dvoid
    {_N}.dropout(?) <- dhalf
    {_N}.dropout(?) <- i, 0.0; i, 1.0; i, 0.5, False; dx, 0.1; dx, True; dx * 2, 0.25
    torch.dropout(?) <- dx, 0.5, True; dx, 0.5, False; dx, p=0.2, train=True
    {_N}.alpha_dropout(?) <- dx; dx, 0.3, True; dx, 0.0, True; dx, 1.0, True; dturn, 0.4, True
    {_N}.alpha_dropout(?) <- dhalf, 0.5, True
    torch.alpha_dropout(?) <- dx, 0.5, True; dx, 0.5, False
""")
_CHANNELS = calls(f"""
    {_N}.dropout1d(?) <- dseq; dx, 0.3; dx, 0.5, False; dseq, 0.0; dseq, 1.0; dx, 1.0
    {_N}.dropout2d(?) <- dimg; dimg, 0.2; dimg, training=False; dseq; dx, 0.3; dvol; dturn
    {_N}.dropout3d(?) <- dvol; dimg, 0.3; dvol, 0.0; dimg, 1.0; dimg, 0.5, False; dseq, 0.3
    {_N}.feature_alpha_dropout(?) <- dimg, 0.3, True; dx, 0.3, True; dvol; dvol, 1.0, True
    torch.feature_dropout(?) <- dimg, 0.5, True; dseq, 0.3, True
    torch.feature_alpha_dropout(?) <- dimg, 0.5, True; dimg, 0.5, False
""")
_IN_PLACE = [
    *every(
        "{f}({x} * 1, {p}, True, True)",
        f=f"{_N}.dropout; {_N}.alpha_dropout; {_N}.feature_alpha_dropout; {_N}.dropout2d",
        x="dimg; dvol", p="0.4; 0.0; 1.0",
    ),
    *every("torch.{f}_(dimg * 1, {p}, True)", p="0.4; 0.0; 1.0",
           f="dropout; feature_dropout; alpha_dropout; feature_alpha_dropout"),
    *calls(f"""
        {_N}.dropout1d(?) <- dseq * 1, 0.5, True, True; dx * 1, 0.5, inplace=True
        {_N}.dropout3d(?) <- dvol * 1, inplace=True; dimg * 1, 0.3, inplace=True
        {_N}.dropout(?) <- (dturn * 1), inplace=True; (dx * 1)[:, ::2], 0.3, inplace=True
    """),
]  # fmt: skip
OTHER_GRAPH = {
    r"dropout1d\(dx \* 1|dropout3d\(dimg \* 1": "the tensor keeps its shape while it is written",
}
GROUPS = {
    "elements": seeded(_ELEMENTS), "channels": seeded(_CHANNELS), "in_place": seeded(_IN_PLACE),
}  # fmt: skip
ERRORS = calls(f"""
    {_N}.dropout(?) <- dx, 1.5; dx, -0.1; i; kv; c64; None; dx, NAN; dx, inplace=True
    torch.dropout(?) <- dx, 1.5, True; dx, -0.1, False
    {_N}.alpha_dropout(?) <- dx, 1.5; i, 0.5, True; c64, 0.5, True
    {_N}.dropout1d(?) <- vec; dimg; dx, 1.5
    {_N}.dropout2d(?) <- vec; dx, 2
    {_N}.dropout3d(?) <- sc; dx, -1
    {_N}.feature_alpha_dropout(?) <- vec, 0.5, True; dx, 7.0
    torch.feature_dropout(?) <- vec, 0.5, True; dx, 1.5, True
    torch.feature_alpha_dropout(?) <- vec, 0.5, True; dx, 1.5, True
""")
