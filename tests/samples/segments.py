"""Calls that reduce segments of a dimension."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

SMOOTH = {"sgx": draw((6, 2), -2, 2, 4401), "sgrow": draw((2, 5), -2, 2, 4402)}
SPECIAL = {"sgtied": np.array([1.0, 3.0, 3.0, 0.0, 0.0, 2.0]), "sgnan": np.array([1.0, NAN, INF])}
FIXED = {
    "sgn": np.array([2, 0, 3, 1]), "sgo": np.array([0, 2, 2, 5, 6]), "sgtwo": np.array([3, 3]),
    "sgrows": np.array([[2, 3], [4, 1]]), "sgthree": np.array([3]), "sgbad": np.array([2, -3]),
}  # fmt: skip
_ALL = "'sum'; 'mean'; 'max'; 'min'; 'prod'"
GROUPS = {
    "segments": [
        *every("torch.segment_reduce(sgx, {r}, {n})", r=_ALL,
               n="lengths=sgn, initial=1; offsets=sgo, initial=2; lengths=sgtwo"),
        *every("torch.segment_reduce({x}, {r}, lengths={n})", r=_ALL, x="sgtied", n="sgtwo"),
        *every("torch.segment_reduce(sgrow, {r}, lengths=sgrows, axis=1)", r=_ALL),
        *calls("""
            torch.segment_reduce(sgnan.detach(), 'max', lengths=sgthree)
            torch.segment_reduce(sgtied, 'max', lengths=sgtwo, initial=3)
            torch.segment_reduce(data=sgx, reduce='sum', lengths=sgbad * 0 + 2, unsafe=True)
        """),
    ]
}  # fmt: skip
ERRORS = calls("""
    torch.segment_reduce(sgx, ?) <- 'sum'; 'foo', lengths=sgn; 'sum', lengths=sgthree
    torch.segment_reduce(sgx, 'sum', ?) <- lengths=sgbad; indices=sgn; axis=2
    torch.segment_reduce(sgx, 'sum', ?) <- lengths=sgn, axis=1
    torch.segment_reduce(i, 'sum', lengths=sgtwo[:1] - 1)
""")
NOT_COMPLEX = {"segment_reduce": "PyTorch refuses complex numbers"}
NOT_TWICE = {"segment_reduce": "PyTorch has no second derivative of it"}
OTHER_GRAPH = {r"segment_reduce\((?!sgnan)": "made of other operations"}
NOT_BATCHED = {"segment_reduce": "the segments are the same for all entries"}
