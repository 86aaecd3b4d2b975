"""Recurrent networks and cells."""

import numpy as np

from samples._pool import draw
from samples._words import calls

SMOOTH = {
    "rx": draw((4, 3, 2), -0.6, 0.6, 801), "rh": draw((2, 3, 3), -0.6, 0.6, 802),
    "rc": draw((2, 3, 3), -0.6, 0.6, 803), "rp": draw((2, 3, 2), -0.6, 0.6, 804),
    "rd": draw((8, 2), -0.6, 0.6, 805), "ri": draw((12, 2), -0.6, 0.6, 806),
    "rw": draw((12, 3), -0.6, 0.6, 807), "rb": draw((12,), -0.6, 0.6, 808),
    "rb2": draw((12,), -0.6, 0.6, 809), "rwp": draw((12, 2), -0.6, 0.6, 811),
    "rhr": draw((2, 3), -0.6, 0.6, 812), "rs": draw((3, 2), -0.6, 0.6, 813),
    "rlast": draw((3, 3), -0.6, 0.6, 814), "rcell": draw((3, 3), -0.6, 0.6, 815),
    "ri3": draw((12, 3), -0.6, 0.6, 816),
}  # fmt: skip
SPECIAL = {}
FIXED = {"rsizes": np.array([3, 3, 1, 1])}
# A layer has weights of four, three or one row for each of its three hidden units.
_ROWS = {"lstm": 12, "gru": 9, "rnn_tanh": 3, "rnn_relu": 3}


def _weights(rows: int, wide: str = "ri") -> str:
    return f"{wide}[:{rows}], rw[:{rows}], rb[:{rows}], rb2[:{rows}]"


def _of(name: str) -> list[str]:
    n = _ROWS[name]
    one, two = ("(rh[:1], rc[:1])", "(rh, rc)") if name == "lstm" else ("rh[:1]", "rh")
    w, f = _weights(n), f"torch.{name}"
    no_bias, second = f"ri[:{n}], rw[:{n}]", _weights(n, "ri3")
    return calls(f"""
        {f}(rx, {one}, [{w}], True, 1, 0.0, False, False, False)
        {f}(rx, {one}, [{no_bias}], False, 1, 0.0, True, False, False)
        {f}(rx.transpose(0, 1), {one}, [{w}], True, 1, 0.0, False, False, True)
        {f}(rx, {two}, [{w}, {w}], True, 1, 0.0, False, True, False)
        {f}(rx, {two}, [{w}, {second}], True, 2, 0.0, False, False, False)
        {f}(rd, rsizes, {one}, [{w}], True, 1, 0.0, False, False)
        {f}(rd, rsizes, {two}, [{w}, {no_bias}, rb[:{n}], rb2[:{n}]], True, 1, 0.0, False, True)
        (torch.manual_seed(3), {f}(rx, {two}, [{w}, {second}], True, 2, 0.5, True, False, False))[1]
        {f}(rx[:1], {one}, [{no_bias}], False, 1, 0.0, False, False, False)[0]
        {f}(rx, {one}, [{w}], True, 1, 0.0, False, False, False)[1]
    """)


_PROJECTED = calls("""
    torch.lstm(rx, (rp[:1], rc[:1]), [ri, rwp, rb, rb2, rhr], True, 1, 0.0, False, False, False)
    torch.lstm(rd, rsizes, (rp[:1], rc[:1]), [ri, rwp, rhr], False, 1, 0.0, False, False)
    torch.lstm(rx, (rp, rc), [ri, rwp, rhr, ri, rwp, rhr], False, 1, 0.0, False, True, False)
""")
_CELLS = calls("""
    torch.lstm_cell(rs, (rlast, rcell), ri, rw?) <- ; , rb, rb2
    torch.gru_cell(rs, rlast, ri[:9], rw[:9]?) <- ; , rb[:9], rb2[:9]
    torch.rnn_tanh_cell(rs, rlast, ri[:3], rw[:3]?) <- ; , rb[:3], rb2[:3]
    torch.rnn_relu_cell(?, rlast, ri[:3], rw[:3]) <- rs; rs * NAN
""")
GROUPS = {"cells": _CELLS, "projected": _PROJECTED} | {name: _of(name) for name in _ROWS}
OTHER_GRAPH = {r"torch\.(lstm|gru|rnn)": "one node for all steps; PyTorch has some for each"}
ERRORS = calls("""
    torch.lstm(rx, (rh[:1],), [ri, rw], False, 1, 0.0, False, False, False)
    torch.lstm(rx[:0], (rh[:1], rc[:1]), [ri, rw], False, 1, 0.0, False, False, False)
    torch.lstm_cell(rs, (rlast,), ri, rw); torch.lstm_cell(rlast, (rlast, rcell), ri, rw)
    torch.lstm_cell(rs, (rlast[:2], rcell), ri, rw); torch.lstm_cell(rs, (rlast, rs), ri, rw)
    torch.gru_cell(rs, rs, ri[:9], rw[:9]); torch.gru_cell(rs, rlast, ri, rw)
    torch.rnn_tanh_cell(rs[:2], rlast, ri[:3], rw[:3])
    torch.rnn_relu_cell(rs, rlast.to(torch.float32), ri[:3], rw[:3])
    torch.lstm_cell(rs, (rlast.to(torch.float32), rcell), ri, rw)
""")
