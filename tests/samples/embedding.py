"""Calls that look up rows of tables."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "ebw": draw((5, 3), -2, 2, 1301), "ebturn": draw((3, 5), -2, 2, 1302).T,
    "ebf": draw((6,), -2, 2, 1303), "ebf2": draw((2, 3), -2, 2, 1304),
}  # fmt: skip
SPECIAL = {"ebtie": np.array([[1.0, 2.0], [1.0, 3.0], [0.0, 3.0]])}
FIXED = {
    "eb1": np.array([1, 3, 1, 0]), "eb2": np.array([[0, 2, 4], [2, 2, 1]]), "eb0": np.array(2),
    "ebnone": np.zeros((0,), np.int64), "eb32": np.array([4, 0], np.int32),
    "ebtall": np.array([[0, 1], [2, 1], [3, 3]]).T, "eb6": np.array([0, 2, 4, 2, 2, 1]),
    "eboff": np.array([0, 2, 2, 5]), "eboff32": np.array([0, 3], np.int32),
    "eblast": np.array([0, 2, 6]), "ebfloat": np.array([0.0, 1.0]), "ebint": np.ones((4, 3), int),
    "ebbyte": np.array([0, 1], np.uint8), "ebfar": np.array([0, 5]), "ebneg": np.array([0, -1]),
    "eb3": np.zeros((1, 1, 2), np.int64), "ebc": draw((4, 3), -2, 2, 1305),
    "ebf32": draw((6,), -2, 2, 1306).real.astype("float32"),
}  # fmt: skip


def gradient(call: str, by: str) -> str:
    """The gradients of a call, as an expression whose values are compared."""
    summed = f"({call} * torch.arange(3)).sum()"
    return f"torch.enable_grad()(lambda: torch.autograd.grad({summed}, [{by}]))()"


_EMBEDDINGS = calls("""
    torch.nn.functional.embedding(?) <- eb1, ebw; eb2, ebw; eb0, ebw; ebnone, ebw.detach()
    torch.nn.functional.embedding(?) <- eb32, ebw; ebtall, ebw
    torch.nn.functional.embedding(?) <- eb1, ebturn; eb2, ebw, 2; eb2, ebw, -1
    torch.nn.functional.embedding(?) <- eb1, ebw, padding_idx=1
    torch.nn.functional.embedding(?) <- eb2, ebint; eb1, ebint, 0
    torch.embedding(?) <- ebw, eb1; ebw, eb2, 2; ebw, eb1, -1, False, False
""")
_BAG = "torch.nn.functional.embedding_bag"
_BAGS = [
    *every("torch.nn.functional.embedding_bag({x}, mode='{mode}'{more})",
           x="eb2, ebw; eb6, ebw, eboff; eb6, ebturn, eboff32; ebtall, ebw; ebnone, ebw, ebnone",
           mode="sum; mean; max", more="; , padding_idx=2; , padding_idx=-1"),
    *calls(f"""
        {_BAG}(?) <- eb2, ebw; eb6, ebw, eblast, include_last_offset=True
        {_BAG}(?) <- eb6, ebw, eblast, None, 2, False, 'max', False, None, True
        {_BAG}(?) <- eb6, ebw, eboff, mode='sum', per_sample_weights=ebf
        {_BAG}(?) <- eb2, ebw, mode='sum', per_sample_weights=ebf2
        {_BAG}(?) <- eb6, ebw, eboff, mode='sum', per_sample_weights=ebf, padding_idx=2
        {_BAG}(?) <- ebw, eb2
        {_BAG}(?) <- eb2 % 3, ebtie, mode='max'
    """),
]  # fmt: skip
GROUPS = {
    "rows": _EMBEDDINGS,
    "renormed": calls("""
        torch.nn.functional.embedding(eb2, ebw + 0, max_norm=1.0)
        torch.nn.functional.embedding(eb1, ebw + 0, None, 0.7, 1.0)
        torch.nn.functional.embedding(eb1, ebw.detach(), None, 0.7, 3.5)
        torch.nn.functional.embedding_bag(eb2, ebw.detach(), None, 0.7, INF)
        torch.nn.functional.embedding(eb1, ebw, max_norm=100.0)
        (lambda w: [torch.nn.functional.embedding(eb1, w, None, 0.5), w, w._version])(ebw.detach())
        (lambda w: [torch.nn.functional.embedding_bag(eb2, w, max_norm=0.5), w])(ebw.detach())
    """),
    "scaled": [
        gradient(f"torch.nn.functional.embedding({x}, scale_grad_by_freq=True)", "ebw")
        for x in ("eb2, ebw", "eb1, ebw", "eb2, ebw, 2")
    ],
    "bags": _BAGS,
    "gradients": [
        *(gradient(e, "ebturn" if "ebturn" in e else "ebw") for e in _BAGS
          if "ebtie" not in e and "detach" not in e and "per_s" not in e),
        *(gradient(e, "ebw, ebf2" if "ebf2" in e else "ebw, ebf") for e in _BAGS
          if "per_s" in e and "detach" not in e),
        # PyTorch counts the wrong rows where some occur more often than others.
        gradient("torch.nn.functional.embedding_bag(eb2[:, :1].expand(2, 3), ebw, mode='sum',"
                 " scale_grad_by_freq=True)", "ebw"),
    ],
}  # fmt: skip
ERRORS = calls("""
    torch.nn.functional.embedding(eb2, ebw, 2.)
    torch.nn.functional.embedding(?) <- ebfar, ebw; ebneg, ebw; ebfloat, ebw; ebbyte, ebw; eb1, vec
    torch.nn.functional.embedding(?) <- eb1, cube
    torch.nn.functional.embedding(?) <- eb1, ebw, 5; eb1, ebw, -6; eb1, none
    torch.nn.functional.embedding_bag(?) <- eb1, ebw; eb2, ebw, eboff; eb1, ebw, eblast + 1
    torch.nn.functional.embedding_bag(?) <- eb1, ebw, eblast
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, mode='foo'
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, per_sample_weights=ebf
    torch.nn.functional.embedding_bag(?) <- eb1, ebw, eb1, mode='sum', per_sample_weights=ebf
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eb2
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, mode='max', scale_grad_by_freq=True
    torch.nn.functional.embedding_bag(?) <- eb3, ebw
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, mode='max', sparse=True
    torch.nn.functional.embedding_bag(?) <- ebfar, ebw, ebfar * 0
    torch.nn.functional.embedding_bag(?) <- ebfloat, ebw, eboff; eb6, ebw, ebfloat
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, padding_idx=7
    torch.nn.functional.embedding_bag(?) <- eb1, ebint, ebnone; eb2[:, :0], ebw; eb2 % 4, ebc
    torch.nn.functional.embedding_bag(?) <- eb6, ebw, eboff, mode='sum', per_sample_weights=ebf32
""")
NO_RULE = {
    ("embedding", "indices"): "numbers of rows",
    ("embedding_bag", "indices"): "numbers of rows",
    ("embedding_bag", "offsets"): "where bags begin",
    ("embedding_bag_max", "indices"): "numbers of rows",
    ("embedding_bag_max", "offsets"): "where bags begin",
    ("embedding_bag_max", "per_sample_weights"): "only sums are weighted",
}
NOT_COMPLEX = {"embedding": "PyTorch does not differentiate complex ones"}
ONLY_OURS = {
    r"^torch\.nn\.functional\.embedding_bag":
        "PyTorch has no second derivative; first ones are compared in the group of gradients",
}  # fmt: skip
ROUGH = {
    r"embedding\(.*(, 2\)|, -1\)|padding_idx)": "what is looked up of the padding is constant",
    r"max_norm|, 0\.7": "the table is written, unrecorded",
}
NO_TANGENT = {
    r"embedding\(.*(, 2\)|, -1\)|padding_idx)":
        "as in PyTorch, a tangent of the padding is looked up, but no gradient goes to it",
}  # fmt: skip
