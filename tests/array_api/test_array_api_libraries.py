"""Functions of SciPy and scikit-learn that support the array API, called with tensors. SciPy looks
at SCIPY_ARRAY_API when it is imported, so they run in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from _versions import needs_scipy

SCIPY = """
import warnings
import numpy as np, scipy.special as sp, scipy.stats as st, scipy.fft as sf, scipy.signal as ss
import scipy.integrate as si, scipy.cluster.vq as vq, scipy.spatial.transform as tr
import scipy.differentiate as sd, scipy.constants as sc
import retrograd as torch

X = np.array([0.3, 1.2, 2.5, 0.7])
WEIGHTS = np.array([0.3, -1.1, 0.7, 0.4, 1.3, -0.2, 0.5, 0.9, -0.6])
CALLS = {
    "logsumexp": lambda x: sp.logsumexp(x), "softmax": lambda x: sp.softmax(x),
    "log_softmax": lambda x: sp.log_softmax(x), "erf": lambda x: sp.erf(x),
    "gammaln": lambda x: sp.gammaln(x), "expit": lambda x: sp.expit(x), "j0": lambda x: sp.j0(x),
    "xlogy": lambda x: sp.xlogy(x, x), "entr": lambda x: sp.entr(x), "ndtr": lambda x: sp.ndtr(x),
    "rel_entr": lambda x: sp.rel_entr(x, x * x), "zscore": lambda x: st.zscore(x),
    "gmean": lambda x: st.gmean(x), "hmean": lambda x: st.hmean(x), "skew": lambda x: st.skew(x),
    "kurtosis": lambda x: st.kurtosis(x), "moment": lambda x: st.moment(x, 3),
    "variation": lambda x: st.variation(x), "entropy": lambda x: st.entropy(x),
    "describe": lambda x: st.describe(x).variance, "circmean": lambda x: st.circmean(x),
    "iqr": lambda x: st.iqr(x), "rfft": lambda x: abs(sf.rfft(x)),
    "fftconvolve": lambda x: ss.fftconvolve(x, x), "hilbert": lambda x: abs(ss.hilbert(x)),
    "trapezoid": lambda x: si.trapezoid(x),
    "cumulative_trapezoid": lambda x: si.cumulative_trapezoid(x),
    "rotation": lambda x: tr.Rotation.from_rotvec(x[:3]).as_matrix().reshape(-1),
    "derivative": lambda x: sd.derivative(lambda t: t**3, x).df,
    "temperature": lambda x: sc.convert_temperature(x, "C", "K"),
}


def number(y):
    return (y.reshape(-1) * WEIGHTS[: y.reshape(-1).shape[0]]).sum()


for name, call in CALLS.items():
    x = torch.tensor(X, requires_grad=True)
    value = call(x)
    assert isinstance(value, torch.Tensor), name
    np.testing.assert_allclose(value.detach().numpy(), call(X), 1e-9, err_msg=name)
    number(value).backward()
    slopes = [(number(np.asarray(call(X + e))) - number(np.asarray(call(X - e)))) / 2e-5
              for e in 1e-5 * np.eye(4)]
    np.testing.assert_allclose(x.grad.numpy(), slopes, 1e-4, 1e-6, err_msg=name)
print(len(CALLS))
"""

SKLEARN = """
import numpy as np, sklearn
from sklearn import metrics, preprocessing
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
import retrograd as torch

sklearn.set_config(array_api_dispatch=True)
X = np.array([[0.3, 1.2], [2.5, 0.7], [1.1, 1.9], [0.2, 0.4]])
Y, K = np.array([0.1, 0.2, 0.4, 0.7]), np.array([0, 1, 0, 1])
CALLS = [
    lambda x, y, k: metrics.mean_squared_error(y, 2 * y),
    lambda x, y, k: metrics.r2_score(y, y * y),
    lambda x, y, k: metrics.accuracy_score(k, k), lambda x, y, k: metrics.pairwise.rbf_kernel(x),
    lambda x, y, k: metrics.pairwise.cosine_similarity(x),
    lambda x, y, k: preprocessing.MinMaxScaler().fit_transform(x),
    lambda x, y, k: preprocessing.StandardScaler().fit_transform(x),
    lambda x, y, k: preprocessing.normalize(x),
    lambda x, y, k: abs(PCA(1, svd_solver="full").fit_transform(x)),
    lambda x, y, k: Ridge(solver="svd").fit(x, y).predict(x),
    lambda x, y, k: LinearDiscriminantAnalysis().fit(x, k).predict(x),
]
for call in CALLS:
    ours = call(torch.tensor(X), torch.tensor(Y), torch.tensor(K))
    assert isinstance(ours, (torch.Tensor, float))
    np.testing.assert_allclose(np.asarray(ours), call(X, Y, K), 1e-9)
x = torch.tensor(X, requires_grad=True)
metrics.pairwise.rbf_kernel(x).sum().backward()
assert x.grad.abs().sum() > 0
print(len(CALLS))
"""


def run(program: str) -> int:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return int(found.stdout.split()[-1])


@needs_scipy(1, 15)
def test_functions_of_scipy_are_recorded() -> None:
    assert run(SCIPY) == 30


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn")
def test_functions_of_scikit_learn_take_tensors() -> None:
    assert run(SKLEARN) == 11
