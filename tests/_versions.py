"""Skipping tests of what the oldest supported NumPy and SciPy do not have."""

import re

import numpy as np
import pytest
import scipy

NUMPY_2_0 = np.lib.NumpyVersion(np.__version__) < "2.1.0"
KEYWORDS_OF_2_1 = re.compile(r"\bclip\(.*\bm(in|ax)=|\breshape\(.*\bcopy=")


def skip_if_numpy_lacks(call: str) -> None:
    """Skip a test of a call, with ``np`` or ``xp`` for NumPy, that this NumPy does not have."""
    for name in re.findall(r"\b(?:np|xp)\.(\w+)", call):
        if not hasattr(np, name):
            pytest.skip(f"NumPy {np.__version__} has no {name}")
    if NUMPY_2_0 and KEYWORDS_OF_2_1.search(call):
        pytest.skip(f"NumPy {np.__version__} does not have these keywords")


def needs_scipy(major: int, minor: int) -> pytest.MarkDecorator:
    version = tuple(map(int, scipy.__version__.split(".")[:2]))
    return pytest.mark.skipif(version < (major, minor), reason=f"needs SciPy {major}.{minor}")
