"""Calls of NumPy, SciPy and other libraries with tensors that require grad, and what becomes of
each: it is recorded, it works without a history, or an error says what to do.

``python tests/numpy_page.py [FOLDER]`` runs them and writes the tables of docs/numpy.md. Packages
that are not installed are looked for in FOLDER, where ``pip install --target FOLDER`` has put them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "numpy.md"
TABLES = re.compile(r"(<!-- tables -->\n).*?(<!-- end -->)", re.S)

# x: 4 positive numbers that require grad; X: a matrix of them; a: an array; plain: as x, without.
CALLS: dict[str, tuple[str, list[str]]] = {
    "numpy": ("import numpy as np", [
        "np.sin(x)", "a * x", "a @ x", "np.add(a, x)", "np.multiply.outer(x, a)",
        "np.add.reduce(x)", "np.maximum(x, 0.5)", "np.exp(x, out=torch.zeros_like(plain))",
        "np.exp(x, out=a)", "np.log(x, where=x > 0.5)", "np.sum(X, axis=0)", "np.mean(x)",
        "np.var(x)", "np.max(X, axis=1)", "np.median(x)", "np.percentile(x, 30)", "np.cumsum(x)",
        "np.sort(x)", "np.argsort(x)", "np.concatenate([a, x])", "np.stack([x, x])",
        "np.where(x > 0.5, x, 0)", "np.einsum('i,i->', x, a)", "np.dot(a, x)", "np.interp(x, a, a)",
        "np.gradient(x)", "np.convolve(x, a)", "np.linalg.solve(X, a)", "np.linalg.norm(x)",
        "np.linalg.eigh(X @ X.T)", "np.linalg.svd(X)", "np.fft.rfft(x)", "np.unique(x)",
        "np.allclose(x, x)", "np.array_repr(x)", "np.zeros(3, dtype=x.dtype)",
        "np.histogram(x)", "np.asarray(x)", "np.array([x, x])", "np.asarray(plain)",
        "np.save(file, x)", "np.vectorize(float)(x)", "np.random.default_rng(0).permutation(x)",
        "func.grad(lambda v: np.sum(v**2))(a)",
    ]),
    "scipy": ("import scipy.special as sp, scipy.stats as st, scipy.optimize as so\n"
              "import scipy.linalg as sl, scipy.integrate as si, scipy.interpolate as sip\n"
              "import scipy.sparse as ss, scipy.signal as sg, numpy as np", [
        "sp.erf(x)", "sp.gammaln(x)", "sp.expit(x)", "sp.logsumexp(x)", "sp.softmax(x)",
        "sp.jv(1, x)", "st.zscore(x)", "st.gmean(x)", "st.entropy(x)", "st.norm.pdf(x)",
        "sg.fftconvolve(x, x)", "si.trapezoid(x)", "si.simpson(plain)",
        "so.minimize(f, a, jac=func.grad(f)).success",
        "so.least_squares(r, a, jac=func.jacfwd(r)).success",
        "so.minimize(lambda v: torch.sum(torch.as_tensor(v) ** 2), a).success",
        "sl.inv(X)", "sl.expm(plain.reshape(2, 2))", "sip.CubicSpline(torch.as_tensor(a), x)(0.7)",
        "ss.csr_array(np.eye(4)) @ plain", "ss.csr_array(np.eye(4)) @ x",
    ]),
    "pandas": ("import pandas as pd, numpy as np", [
        "pd.Series(plain)", "pd.Series(x)", "pd.DataFrame({'a': plain})",
        "torch.as_tensor(pd.Series(a).to_numpy()) * x", "np.sin(pd.Series(a)) * plain",
        "pd.Series(a) * x", "x * torch.from_numpy(pd.DataFrame({'a': a})['a'].to_numpy(copy=True))",
    ]),
    "matplotlib": ("import matplotlib; matplotlib.use('Agg')\n"
                   "import matplotlib.pyplot as plt", [
        "plt.plot(plain)", "plt.plot(x)", "plt.plot(x.detach())", "plt.hist(plain)",
        "plt.imshow(X.detach())",
    ]),
    "einops": ("import einops, einops.array_api", [
        "einops.array_api.rearrange(X, 'a b -> b a')",
        "einops.array_api.reduce(X, 'a b -> a', 'sum')",
        "einops.array_api.repeat(x, 'a -> a k', k=2)", "einops.rearrange(X, 'a b -> b a')",
    ]),
    "scikit-learn": ("import sklearn; sklearn.set_config(array_api_dispatch=True)\n"
                     "from sklearn import metrics, preprocessing\n"
                     "from sklearn.decomposition import PCA\n"
                     "from sklearn.linear_model import LinearRegression, Ridge", [
        "metrics.pairwise.rbf_kernel(X)", "metrics.pairwise.cosine_similarity(X)",
        "preprocessing.normalize(X)", "preprocessing.MinMaxScaler().fit_transform(X)",
        "metrics.mean_squared_error(plain, plain)",
        "PCA(1, svd_solver='full').fit_transform(X.detach())",
        "Ridge(solver='svd').fit(X.detach(), plain).predict(X)",
        "LinearRegression().fit(X.detach().numpy(), a).coef_",
    ]),
}  # fmt: skip

PROGRAM = """
import io, json, sys, warnings
import retrograd as torch
from retrograd import func
warnings.simplefilter("ignore")
setup, calls = json.load(sys.stdin)
exec(setup)
import numpy as np


def f(v):
    return np.sum((v - 1.0) ** 4)


def r(v):
    return v**2 - 2.0


def outcome(call):
    plain = torch.tensor([0.4, 0.9, 0.6, 1.2], dtype=torch.float64)
    x = plain.clone().requires_grad_()
    X = (torch.outer(plain, plain) + torch.eye(4, dtype=torch.float64)).requires_grad_()
    names = {**globals(), "plain": plain, "x": x, "X": X, "a": np.array([0.1, 0.5, 0.8, 1.1]),
             "file": io.BytesIO()}
    try:
        result = eval(call, names)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    parts = result if isinstance(result, tuple) else (result,)
    recorded = [y for y in parts if isinstance(y, torch.Tensor) and y.requires_grad]
    if recorded:
        total = sum((torch.abs(y).reshape(-1) * torch.arange(1.0, y.numel() + 1)).sum()
                    for y in recorded)
        try:
            total.backward()
        except RuntimeError as error:
            return "error", f"in backward, RuntimeError: {error}"
        found = [t.grad for t in (x, X) if t.grad is not None]
        assert found and any(bool((g != 0).any()) for g in found), call
        return "recorded", ""
    kind = type(parts[0])
    return "works", f"{kind.__module__.split('.')[0]}.{kind.__name__}".removeprefix("builtins.")


print(json.dumps([outcome(call) for call in calls]))
"""


def outcomes(package: str, folder: str | None = None) -> list[tuple[str, str]]:
    """What becomes of each call of a package: a word, and the type or the error."""
    paths = [str(ROOT / "src"), *([folder] if folder else []), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(CALLS[package]), env=env, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return [tuple(x) for x in json.loads(ran.stdout)]


def row(call: str, word: str, more: str) -> str:
    text = {"recorded": "recorded", "works": f"returns `{more}`, without a history"}.get(word)
    if text is None:
        sentences = re.split(r"(?<=\.) |\n", more.replace("|", "\\|"))
        advice = [s.strip() for s in sentences[2:] if s.strip().startswith("What to do")]
        text = "raises " + " ".join([*sentences[:2], *advice])
    return f"| `{call.replace('|', chr(92) + '|')}` | {text} |"


def table(package: str, found: list[tuple[str, str]]) -> str:
    calls = CALLS[package][1]
    rows = [row(call, *outcome) for call, outcome in zip(calls, found, strict=True)]
    return "\n".join(["| call | outcome |", "| --- | --- |", *rows]) + "\n"


def version(package: str, folder: str | None) -> str:
    paths = [*([folder] if folder else []), *sys.path]
    return next(iter(metadata.distributions(name=package, path=paths))).version


def tables(folder: str | None) -> str:
    text, counts = "", dict.fromkeys(("recorded", "works", "error"), 0)
    for package in CALLS:
        found = outcomes(package, folder)
        for word, _ in found:
            counts[word] += 1
        title = {"numpy": "NumPy", "scipy": "SciPy, with `SCIPY_ARRAY_API=1`"}.get(package, package)
        text += f"\n### {title}\n\n{package} {version(package, folder)}.\n\n{table(package, found)}"
    total = sum(counts.values())
    head = (
        f"Of {total} calls, {counts['recorded']} are recorded, {counts['works']} work and give a "
        f"result without a history, and {counts['error']} raise an error.\n"
    )
    return f"\n{head}{text}\n"


def main(args: list[str]) -> Any:
    page = PAGE.read_text(encoding="utf-8")
    new = tables(args[0] if args else None)
    PAGE.write_text(TABLES.sub(lambda m: m[1] + new + m[2], page), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
