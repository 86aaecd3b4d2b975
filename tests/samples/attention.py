"""Attention, of one and of several heads."""

import numpy as np

from samples._pool import draw
from samples._words import calls

_S = "torch.nn.functional.scaled_dot_product_attention"
_M = "torch.nn.functional.multi_head_attention_forward"
SMOOTH = {
    "aq": draw((2, 2, 3, 4), -2, 2, 701), "ak": draw((2, 2, 5, 4), -2, 2, 702),
    "av": draw((2, 2, 5, 4), -2, 2, 703), "aq8": draw((2, 4, 3, 4), -2, 2, 704),
    "abias": draw((3, 5), -2, 2, 705), "abias4": draw((2, 1, 3, 5), -2, 2, 706),
    "mq": draw((3, 2, 4), -1, 1, 711), "mk": draw((5, 2, 4), -1, 1, 712),
    "mv": draw((5, 2, 4), -1, 1, 713), "mw": draw((12, 4), -1, 1, 714),
    "mb": draw((12,), -1, 1, 715), "mow": draw((4, 4), -1, 1, 716),
    "mob": draw((4,), -1, 1, 717), "mbk": draw((1, 1, 4), -1, 1, 718),
    "mbv": draw((1, 1, 4), -1, 1, 719), "mqw": draw((4, 4), -1, 1, 720),
    "mkw": draw((4, 3), -1, 1, 721), "mvw": draw((4, 2), -1, 1, 722),
    "mk3": draw((5, 2, 3), -1, 1, 723), "mv2": draw((5, 2, 2), -1, 1, 724),
    "msk": draw((4, 6, 2), -1, 1, 725), "msv": draw((4, 6, 2), -1, 1, 726),
    "mbias": draw((3, 5), -1, 1, 727), "ae": draw((2, 2, 3, 4), -2, 2, 707),
    "awide": draw((2, 2, 5, 6), -2, 2, 708),
}  # fmt: skip
SPECIAL = {
    "anone": np.zeros((2, 2, 0, 4)), "aflat": np.zeros((2, 2, 3, 0)),
    "aflatk": np.zeros((2, 2, 5, 0)), "alow": np.array([[0.0] * 5, [-np.inf] * 5, [1.0] * 5]),
}  # fmt: skip
FIXED = {
    "am": np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool),
    "am4": np.arange(60).reshape(2, 2, 3, 5) % 3 != 1,
    "am3": np.arange(30).reshape(2, 3, 5) % 3 != 1,
    "afm": np.array([[1, 0, -1, 1, 0], [2, 0, 0, -3, 0], [1, 1, 1, 1, 1]], np.float32),
    "mpad": np.array([[0, 0, 1, 0, 1], [0, 1, 0, 0, 0]], bool),
    "mmask": np.array([[0, 1, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]], bool),
    "mmask3": np.arange(60).reshape(4, 3, 5) % 4 == 1,
    "mfpad": np.array([[0, 0, -1, 0, 1], [0, 2, 0, 0, 0]], np.float32),
    "mfmask": np.array([[0, 1, 0, 0, 1], [2, 0, -1, 0, 0], [0, 0, 1, 0, 0]], np.float32),
    "mcausal": ~np.tri(3, dtype=bool), "ah": np.arange(24, dtype=np.float16).reshape(2, 3, 4) / 8,
}  # fmt: skip
_STEPS = calls(f"""
    {_S}(aq[0], ak[0], av[0]?) <- ; , am; , abias; , is_causal=True; , scale=0.3; , scale=-0.3
    {_S}(aq[0], ak[0], av[0]?) <- , alow
    {_S}(aq[0], ak[0], av[0]?) <- , am3; , am[:1]; , abias[0]; , afm; , sc; , enable_gqa=True
    {_S}(aq[0, 0], ak[0, 0], av[0, 0]?) <- ; , am; , is_causal=True; , abias
    {_S}(?) <- aq[None], ak[None], av[None]; aq[:1, :1, None], ak, av; aq[0, 0], ak[0], av[0]
    {_S}(?) <- aq, ak, av, abias; aq, ak, av, abias4; aq, ak, av, am3; aq, ak, awide
    {_S}(?) <- aq, ak[:1], av[:1]
    {_S}(?) <- aq8[0], ak[0], av[0], enable_gqa=True; aq8[0], ak[0], av[0][:1], enable_gqa=True
    {_S}(?) <- aq8, ak, av[:, :1], enable_gqa=True; aq, ak, anone[:, :, :0]; aq, anone, anone
    {_S}(?) <- anone, ak, av; aflat, aflatk, av; aflat[0, 0], aflatk[0, 0], av[0, 0]; ah, ah, ah
    {_S}(?) <- ah[0], ah[1], ah[0], is_causal=True
    {_S}(?) <- aq.transpose(2, 3), ak[:, :, :, :3], av[:, :, :, :3]
    (torch.manual_seed(4), {_S}(aq[0], ak[0], av[0], ?))[1] <- dropout_p=0.5; None, 0.3; None, 1.0
    (torch.manual_seed(4), {_S}(aq, ak, av, ?))[1] <- am4, 0.5; dropout_p=0.3, is_causal=True
""")
_FUSED = calls(f"""
    {_S}(?) <- aq, ak, av; aq, ak, av, am; aq, ak, av, am4; aq, ak, av, is_causal=True; aq, ak, ak
    {_S}(?) <- aq, ak, av, afm; aq, ak, av, scale=0.3; aq, ak, av, scale=-1.0
    {_S}(?) <- aq, ak, av, am4[:1, :1]
    {_S}(?) <- aq8, ak, av, enable_gqa=True; aq8, ak[:, :1], av[:, :1], am, enable_gqa=True
    {_S}(?) <- aq8, ak, av, am4.repeat(1, 2, 1, 1), enable_gqa=True
    {_S}(?) <- ae.transpose(1, 2), aq.transpose(1, 2), av[:, :, :2].repeat(1, 2, 1, 1)[:, :3]
    {_S}(?) <- aq, ak, av, alow.detach(); aq, ak, av, am, 0.0, True; aq, ak, av, am[:1]
    {_S}(?) <- ah[None], ah[None], ah[None]
""")
_BARE = "None, None, False, 0.0, mow, mob"
_PACKED = f"4, 2, mw, mb, {_BARE}"
_APART = f"{_BARE}, use_separate_proj_weight=True, q_proj_weight"
_WEIGHTS = "mqw, k_proj_weight=mkw, v_proj_weight=mvw"
_DROPPED = f"{_M}(mq, mk, mv, 4, 2, mw, mb, None, None, False, 0.5, mow, mob"
_HEADS = calls(f"""
    {_M}(mq, mk, mv, {_PACKED}?) <- ; , average_attn_weights=False; , True, mpad; , attn_mask=mmask
    {_M}(mq, mk, mv, {_PACKED}?) <- , attn_mask=mmask3; , attn_mask=mbias
    {_M}(mq, mk, mv, {_PACKED}?) <- , True, mpad, attn_mask=mmask
    {_M}(mq, mk, mv, {_PACKED}?) <- , False; , attn_mask=mmask, is_causal=True; , training=False
    {_M}(?, {_PACKED}) <- mq, mq, mq; mq, mk, mk; mq[:, 0], mk[:, 0], mv[:, 0]
    {_M}(?, {_PACKED}) <- mq[:, 1], mq[:, 1], mq[:, 1]
    {_M}(mq[:, 0], mk[:, 0], mv[:, 0], {_PACKED}, ?) <- True, mpad[0]; attn_mask=mmask3[:2]
    {_M}(mq[:, 0], mk[:, 0], mv[:, 0], {_PACKED}, ?) <- average_attn_weights=False
    {_M}(mq, mk, mv, 4, 2, ?) <- mw, None, {_BARE}; mw, mb, mbk, mbv, False, 0.0, mow, mob
    {_M}(mq, mk, mv, 4, 2, ?) <- mw, mb, mbk, mbv, True, 0.0, mow, None
    {_M}(mq, mk, mv, 4, 1, mw, mb, None, None, True, 0.0, mow, mob, True, mpad, attn_mask=mmask)
    {_M}(mq, mk, mv, 4, 2, mw, mb, mbk, mbv, False, 0.0, mow, mob, True, mpad, True, mmask)
    {_M}(mq, mk, mk, 4, 4, mw, None, None, None, False, 0.0, mow, None)
    {_M}(mq, mk3, mv2, 4, 2, None, ?, {_APART}={_WEIGHTS}) <- mb; None
    {_M}(mq, mk, mv, {_PACKED}, static_k=msk, static_v=msv)
    (torch.manual_seed(5), {_DROPPED}?))[1] <- ; , False
    (torch.manual_seed(5), {_DROPPED}, need_weights=False)[0])[1]
""")
_ALONE = f"{_PACKED}, need_weights=False"
_HEADS_FUSED = calls(f"""
    {_M}(mq, mk, mv, {_ALONE}?)[0] <- ; , attn_mask=mmask; , attn_mask=mmask3; , attn_mask=mfmask
    {_M}(mq, mk, mv, {_ALONE}?)[0] <- , key_padding_mask=mpad
    {_M}(mq, mk, mv, {_ALONE}?)[0] <- , key_padding_mask=mfpad, attn_mask=mmask
    {_M}(mq, mq, mq, {_ALONE}?)[0] <- ; , attn_mask=mcausal, is_causal=True
    {_M}(mq[:, 0], mk[:, 0], mk[:, 0], {_ALONE})[0]
    {_M}(mq, mk, mv, {_PACKED}, need_weights=False)[1:]
""")
GROUPS = {"heads": _HEADS, "heads_fused": _HEADS_FUSED, "steps": _STEPS, "fused": _FUSED}
_TWICE = "PyTorch cannot differentiate it twice"
ONLY_OURS = {
    rf"^{_S}\((aq, ak, av|aq8, ak|ae|aq, ak, ak)": _TWICE,
    r"^torch.nn.functional.multi_head.*need_weights=False": _TWICE,
}
ERRORS = calls(f"""
    {_S}(?) <- vec, mat, mat; aq, ak, 3; None, ak, av; aq, None, av; aq, ak, f32; aq, ak, av, iv
    {_S}(?) <- aq, ak, av, fsc; aq, ak, av, f64; aq, ak, av, am[:, :3]; aq, ak, av, am4[None]
    {_S}(?) <- aq[0], ak[0], av[0], am[:2]; aq[0], ak[0], av[0], am, is_causal=True
    {_S}(?) <- aq, ak[:, :, :, :3], av
    {_S}(?) <- aq[0], ak[0, :, :, :3], av[0]; aq[0], ak[0], av[0, :, :4]; aq8, ak, av
    {_S}(?) <- aq[0, 0], ak[0, 0], av[0, 0], enable_gqa=True
    {_S}(?) <- aq[0, :1].repeat(3, 1, 1), ak[0], av[0], enable_gqa=True; aq, ak, av, dropout_p=1.5
    {_S}(c64[None], c64[None], c64[None])
    {_M}(?, {_PACKED}) <- vec, mk, mv; mq, mk[0], mv; mq[0], mk, mv; mq, mk, mv[:4]; mq, mk3, mv2
    {_M}(mq, mk, mv, {_PACKED}, ?) <- True, mpad[0]; True, mpad[:1]; True, mpad[:, :4]
    {_M}(mq, mk, mv, {_PACKED}, ?) <- True, iv[None]
    {_M}(mq, mk, mv, {_PACKED}, ?) <- attn_mask=mmask[:2]; attn_mask=mmask3[:2]; attn_mask=mmask[0]
    {_M}(mq, mk, mv, {_PACKED}, ?) <- attn_mask=i
    {_M}(mq, mk, mv, {_PACKED}, ?) <- is_causal=True; static_k=msk[:2]; static_v=msv[:, :, :1]
    {_M}(mq, mk, mv, {_PACKED}, ?) <- use_separate_proj_weight=True
    {_M}(mq[:, 0], mk[:, 0], mv[:, 0], {_PACKED}, ?) <- True, mpad; attn_mask=mmask3
    {_M}(mq[:, 0], mk[:, 0], mv[:, 0], {_PACKED}, ?) <- attn_mask=mmask[0]
    {_M}(mq, mk, mv, ?, mw, mb, {_BARE}) <- 5, 2; 4, 3
    {_M}(mq, mk, mv, 4, 2, ?) <- None, mb, {_BARE}; mw, mb, mbk, None, False, 0.0, mow, mob
    {_M}(mq, mk, mv, 4, 2, ?) <- mw, mb, None, mbv, False, 0.0, mow, mob
    {_M}(mq, mk, mv, 4, 2, mw, mb, mbk, mbv, False, 0.0, mow, mob, ?) <- static_k=msk; static_v=msv
    {_M}(mq, mk3, mv2, 4, 2, None, mb, {_APART}=?) <- mqw; mqw, k_proj_weight=mkw
    {_M}(mq, mk3, mv2, 4, 2, None, mb, {_APART}=mkw, k_proj_weight=mkw, v_proj_weight=mvw)
    {_M}(mq, mk3, mv2, 4, 2, None, mb, {_APART}=mqw, k_proj_weight=mvw, v_proj_weight=mvw)
    {_M}(mq, mk3, mv2, 4, 2, None, mb, {_APART}=mqw, k_proj_weight=mkw, v_proj_weight=mkw)
""")
