"""Third-party packages that import torch, run with this package in its place.

``python tests/compatibility.py FOLDER`` installs them into a folder, without their dependencies on
PyTorch, runs a few programs with each, here and with PyTorch, and writes docs/compatibility.md and
what PyTorch printed, tests/compatibility_expected.json. It needs a package index, and PyTorch to
compare with. ``tests/project/test_compatibility.py`` runs the programs here and compares them with
that file, so it needs no PyTorch. Versions are those of tests/compatibility_versions.txt.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
VERSIONS = ROOT / "tests" / "compatibility_versions.txt"
EXPECTED = ROOT / "tests" / "compatibility_expected.json"
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


class Package(NamedTuple):
    """A package, what it needs besides PyTorch and NumPy, and programs by what they use of it."""

    needs: tuple[str, ...]
    programs: dict[str, str]


MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x, y = torch.randn(6, 4), torch.randn(6, 2)
"""
TRAIN = """
for _ in range(5):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.5f}")
"""


def trained(optimizer: str) -> str:
    """A program that trains a model with an optimizer."""
    return f"{MODEL}optimizer = {optimizer}\n{TRAIN}"


# The model files of torchvision, without its compiled kernels and what reads images.
VISION = """
import importlib, importlib.util, sys, types
def module(name, **names):
    found = sys.modules[f"torchvision{name}"] = types.ModuleType(f"torchvision{name}")
    found.__path__ = [folder + name.replace(".", "/")]
    found.__dict__.update(names)
    return found
modes = types.SimpleNamespace(BILINEAR=1, BICUBIC=2)
if "torchvision.models" not in sys.modules:
    folder = importlib.util.find_spec("torchvision").submodule_search_locations[0]
    module(""), module(".extension", _has_ops=lambda: False), module(".models")
    module(".transforms"), module(".transforms.functional", InterpolationMode=modes)
    module(".transforms._presets", ImageClassification=dict, InterpolationMode=modes)
    parts = module(".ops")
    parts.misc = importlib.import_module("torchvision.ops.misc")
    for name in ("misc", "stochastic_depth"):
        parts.__dict__.update(vars(importlib.import_module(f"torchvision.ops.{name}")))
def trained(home, name):
    model = getattr(importlib.import_module(f"torchvision.models.{home}"), name)(num_classes=5)
    found = model(torch.randn(2, 3, 64, 64))
    found.pow(2).sum().backward()
    print(f"{found.abs().sum().item():.3f}", len([p for p in model.parameters() if p.grad.any()]))
"""

PACKAGES = {
    "einops": Package((), {
        "rearrange, reduce, repeat, einsum": """
import einops
x = torch.randn(2, 3, 4, requires_grad=True)
y = einops.rearrange(x, "b (h w) c -> b c h w", w=3)
z = einops.reduce(y, "b c h w -> b c", "mean")
w = einops.einsum(x, einops.repeat(z, "b c -> b c k", k=2), "b t c, b c k -> b t k")
w.sum().backward()
print(y.shape, z.shape, f"{w.sum().item():.4f} {x.grad.abs().sum().item():.4f}")
""",
        "layers": """
from einops.layers.torch import EinMix, Rearrange
model = torch.nn.Sequential(Rearrange("b c h w -> b (c h w)"), torch.nn.Linear(12, 3),
                            EinMix("b c -> b d", weight_shape="c d", c=3, d=2))
print(f"{model(torch.ones(2, 3, 2, 2)).sum().item():.4f}", model[0])
""",
    }),
    "torchdiffeq": Package((), {
        "odeint": """
from torchdiffeq import odeint
t = torch.linspace(0, 1, 5)
for method in ("dopri5", "rk4", "euler", "bosh3"):
    found = odeint(lambda t, y: -y * t, torch.tensor([1.0, 2.0]), t, method=method)
    print(method, f"{found[-1].sum().item():.5f}")
""",
        "odeint_adjoint": """
from torchdiffeq import odeint_adjoint
class F(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
        self.net = torch.nn.Sequential(*layers)
    def forward(self, t, y):
        return self.net(y)
f = F()
odeint_adjoint(f, torch.ones(1, 2), torch.tensor([0.0, 1.0]))[-1].sum().backward()
print(f"{sum(p.grad.abs().sum().item() for p in f.parameters()):.4f}")
""",
    }),
    "torchsde": Package(("trampoline",), {
        "sdeint": """
import torchsde
class SDE(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"
    def f(self, t, y):
        return -y
    def g(self, t, y):
        return 0.1 * torch.ones_like(y)
found = torchsde.sdeint(SDE(), torch.ones(2, 1), torch.tensor([0.0, 0.5]), dt=0.1, method="euler")
print(found.shape)
""",
    }),
    "torchinfo": Package((), {
        "summary": """
import torchinfo
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(144, 10))
print(torchinfo.summary(model, input_size=(2, 1, 8, 8), verbose=0))
""",
    }),
    "higher": Package((), {
        "innerloop_ctx": f"""
import higher{MODEL}
opt = torch.optim.SGD(model.parameters(), lr=0.1)
with higher.innerloop_ctx(model, opt, copy_initial_weights=False) as (fmodel, diffopt):
    for _ in range(2):
        diffopt.step(((fmodel(x) - y) ** 2).mean())
    loss = ((fmodel(x) - y) ** 2).mean()
    loss.backward()
print(f"{{loss.item():.5f}} {{model[0].weight.grad.abs().sum().item():.5f}}")
""",
    }),
    "geotorch": Package((), {
        "orthogonal, positive_definite": """
import geotorch
layer = torch.nn.Linear(4, 4)
geotorch.orthogonal(layer, "weight")
q = layer.weight
print(torch.allclose(q @ q.T, torch.eye(4), atol=1e-4))
layer(torch.ones(1, 4)).sum().backward()
other = torch.nn.Linear(3, 3)
geotorch.positive_definite(other, "weight")
print(bool((torch.linalg.eigvalsh(other.weight) > 0).all()))
""",
    }),
    "torch_optimizer": Package(("pytorch-ranger",), {
        name: "import torch_optimizer\n" + trained(f"torch_optimizer.{name}(model.parameters())")
        for name in ("RAdam", "Yogi", "DiffGrad", "Lamb", "NovoGrad", "AdaBound", "QHAdam",
                     "Shampoo")
    }),
    "lion-pytorch": Package((), {
        "Lion": "from lion_pytorch import Lion\n" + trained("Lion(model.parameters(), lr=1e-2)"),
    }),
    "prodigyopt": Package((), {
        "Prodigy": "from prodigyopt import Prodigy\n" + trained("Prodigy(model.parameters())"),
    }),
    "schedulefree": Package((), {
        "AdamWScheduleFree": "import schedulefree\n" + trained(
            "schedulefree.AdamWScheduleFree(model.parameters(), lr=1e-2); optimizer.train()"),
    }),
    "adabelief-pytorch": Package(("colorama", "tabulate"), {
        "AdaBelief": "from adabelief_pytorch import AdaBelief\n"
        + trained("AdaBelief(model.parameters(), print_change_log=False)"),
    }),
    "torch-ema": Package((), {
        "ExponentialMovingAverage": "from torch_ema import ExponentialMovingAverage\n" + MODEL + """
ema = ExponentialMovingAverage(model.parameters(), decay=0.9)
with torch.no_grad():
    for p in model.parameters():
        p.add_(1.0)
ema.update()
with ema.average_parameters():
    print(f"{model(x).sum().item():.4f}")
""",
    }),
    "entmax": Package((), {
        "sparsemax, entmax15": """
from entmax import entmax15, sparsemax
x = torch.tensor([[1.0, 2.0, 0.1], [0.3, 0.2, 0.9]], requires_grad=True)
found = sparsemax(x, dim=-1), entmax15(x, dim=-1)
(found[0] * found[1] * torch.arange(3.0)).sum().backward()
print(*[f"{v:.4f}" for t in (*found, x.grad) for v in t.flatten().tolist()])
""",
    }),
    "pytorch-msssim": Package((), {
        "ssim, ms_ssim": """
from pytorch_msssim import ms_ssim, ssim
a = torch.rand(1, 1, 176, 176, requires_grad=True)
b = torch.rand(1, 1, 176, 176)
loss = ssim(a, b, data_range=1.0) + ms_ssim(a, b, data_range=1.0)
loss.backward()
print(f"{loss.item():.5f} {a.grad.abs().sum().item():.5f}")
""",
    }),
    "rotary-embedding-torch": Package(("einops",), {
        "RotaryEmbedding": """
from rotary_embedding_torch import RotaryEmbedding
rotary = RotaryEmbedding(dim=8)
q = torch.randn(1, 2, 5, 16)
print(f"{rotary.rotate_queries_or_keys(q).abs().sum().item():.4f}")
""",
    }),
    "x-transformers": Package(("einops", "einx", "frozendict", "loguru", "packaging",
                               "torch_einops_utils"), {
        "a decoder": """
from x_transformers import Decoder, TransformerWrapper
model = TransformerWrapper(num_tokens=20, max_seq_len=16,
                           attn_layers=Decoder(dim=16, depth=2, heads=2))
out = model(torch.randint(0, 20, (2, 8)))
out.sum().backward()
print(out.shape, f"{out.abs().sum().item():.3f}")
""",
    }),
    "vector-quantize-pytorch": Package(
        ("einops", "einx", "frozendict", "torch_einops_utils", "loguru"), {
        "VectorQuantize": """
from vector_quantize_pytorch import VectorQuantize
vq = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
quantized, indices, loss = vq(torch.randn(1, 10, 8))
print(quantized.shape, indices.shape, f"{loss.item():.4f}")
""",
    }),
    "torchmetrics": Package(("lightning-utilities", "packaging"), {
        "Accuracy, F1Score, MeanSquaredError": """
import torchmetrics
p, t = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 1, 1])
for kind in ("Accuracy", "F1Score", "ConfusionMatrix"):
    print(kind, getattr(torchmetrics, kind)(task="multiclass", num_classes=3)(p, t))
mse = torchmetrics.MeanSquaredError()
mse.update(torch.ones(3), torch.zeros(3))
print(mse.compute())
""",
    }),
    "linear_operator": Package(("jaxtyping", "wadler-lindig", "mpmath"), {
        "sums, products and solutions": """
import linear_operator
from linear_operator import operators
d = operators.DiagLinearOperator(torch.tensor([1.0, 2.0]))
print(d.solve(torch.ones(2, 1)), torch.ones(2, 2) @ d, torch.matmul(d, torch.ones(2, 1)))
both = torch.ones(2, 2) + d
print(both.to_dense(), (d + d).to_dense(), torch.add(d, torch.eye(2)).to_dense())
k = operators.KroneckerProductLinearOperator(both, operators.DenseLinearOperator(torch.eye(3)))
print(k.shape, k.logdet(), k.solve(torch.ones(6, 1)).sum(), torch.diagonal(k, dim1=-1, dim2=-2))
print(torch.linalg.cholesky(both).to_dense(), torch.sum(k, -1))
""",
        "slices of a Kronecker product": """
from linear_operator.operators import DenseLinearOperator, KroneckerProductLinearOperator
k = KroneckerProductLinearOperator(*[DenseLinearOperator(torch.eye(n)) for n in (2, 3)])
print(k[2:4, :2].to_dense())
""",
    }),
    "gpytorch": Package(("linear_operator", "jaxtyping", "wadler-lindig", "mpmath"), {
        "fitting an exact Gaussian process": """
import math, gpytorch
from gpytorch import kernels, likelihoods, means
x = torch.linspace(0, 1, 20)
y = torch.sin(x * 2 * math.pi) + torch.randn(20) * 0.1
class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = means.ConstantMean()
        self.covar_module = kernels.ScaleKernel(kernels.RBFKernel())
    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
likelihood = likelihoods.GaussianLikelihood()
model = Model(x, y, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(20):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f} {likelihood.noise.item():.4f}", model.covar_module)
model.eval(), likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    found = likelihood(model(torch.linspace(0, 1, 5)))
    low, high = found.confidence_region()
print(*[f"{v:.3f}" for v in (*found.mean.tolist(), *(high - low).tolist())])
""",
    }),
    "kornia": Package(("kornia_rs", "packaging"), {
        "color": """
import kornia
x = torch.rand(2, 3, 8, 8, requires_grad=True)
for name in ("grayscale", "hsv", "lab", "ycbcr", "xyz", "hls", "luv", "yuv"):
    print(name, f"{getattr(kornia.color, f'rgb_to_{name}')(x).abs().mean().item():.4f}")
kornia.color.rgb_to_lab(x).pow(2).mean().backward()
print(f"{x.grad.abs().sum().item():.3f}")
""",
        "filters, morphology": """
from kornia import filters, morphology
x = torch.rand(2, 3, 16, 16)
found = (filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)), filters.sobel(x), filters.laplacian(x, 3),
         filters.median_blur(x, (3, 3)), filters.canny(x)[0], filters.bilateral_blur(
         x, (3, 3), 0.1, (1.5, 1.5)), morphology.dilation(x, torch.ones(3, 3)))
print(*[f"{y.abs().mean().item():.4f}" for y in found])
""",
        "geometry": """
from kornia import geometry
x = torch.rand(2, 3, 16, 16)
found = (geometry.rotate(x, torch.tensor([30.0, 10.0])), geometry.pyrdown(x),
         geometry.warp_perspective(x, torch.eye(3).expand(2, 3, 3), (12, 12)),
         geometry.find_homography_dlt(torch.rand(1, 8, 2), torch.rand(1, 8, 2)))
print(*[f"{y.abs().mean().item():.4f}" for y in found])
""",
        "losses, metrics, features": """
from kornia import contrib, feature, losses, metrics
x, y = torch.rand(2, 1, 16, 16), torch.rand(2, 1, 16, 16)
found = (losses.psnr_loss(x, y, 1.0), metrics.ssim(x, y, 3), losses.total_variation(x),
         losses.focal_loss(torch.rand(1, 3, 4, 4), torch.randint(0, 3, (1, 4, 4)), 0.5),
         feature.harris_response(x), contrib.distance_transform(x))
print(*[f"{v.abs().mean().item():.4f}" for v in found])
""",
        "augmentation, enhance": """
from kornia import augmentation, enhance
x = torch.rand(2, 3, 16, 16)
both = augmentation.AugmentationSequential(
    augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0), augmentation.RandomAffine(10.0, p=1.0))
found = both(x), enhance.equalize(x), enhance.equalize_clahe(x)
print(*[f"{y.abs().mean().item():.4f}" for y in found])
""",
    }),
    "torchvision": Package((), {
        name: VISION + f"trained({home!r}, {name!r})\n"
        for home, name in (
            ("resnet", "resnet18"), ("mobilenetv3", "mobilenet_v3_small"),
            ("densenet", "densenet121"), ("squeezenet", "squeezenet1_1"),
            ("shufflenetv2", "shufflenet_v2_x0_5"), ("convnext", "convnext_tiny"),
            ("swin_transformer", "swin_t"),
        )
    }),
    "timm": Package(("torchvision", "safetensors", "huggingface_hub", "pyyaml"), {
        "import": "import timm\nprint(len(timm.list_models()) > 0)\n",
    }),
}

# Nothing of PyTorch may be loaded in place of this package, even where it is installed.
RUNNER = """
import contextlib, io, json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
answers = {}
for name, code in json.load(open(sys.argv[1])).items():
    torch.manual_seed(0)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(code, name, "exec"), {"torch": torch, "__name__": "program"})
        answers[name] = ["printed", said.getvalue()]
    except BaseException as error:
        answers[name] = ["failed", f"{type(error).__name__}: {error}"]
if "retrograd" in torch.__version__:
    homes = tuple(os.path.join(path, "torch", "") for path in sys.path)
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    assert not [file for file in files if file.startswith(homes)], "PyTorch was imported"
print("ANSWERS" + json.dumps(answers))
"""


def install(folder: Path, name: str) -> None:
    """Install a package and what it needs besides PyTorch into a folder.

    Raises:
        RuntimeError: pip failed, for example because it reaches no package index.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
         "--target", str(folder), "--constraint", str(VERSIONS), name, *PACKAGES[name].needs],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(
            f"pip cannot install {name}; is there a package index?\n{done.stderr.strip()}"
        )


def answers(folder: Path, programs: dict[str, str], here: bool) -> dict[str, list[str]]:
    """What programs print, or how they fail, with this package or with PyTorch."""
    script, given = folder / "_runner.py", folder / "_programs.json"
    script.write_text(RUNNER, encoding="utf-8")
    given.write_text(json.dumps(programs), encoding="utf-8")
    command = [sys.executable, *(["-m", "retrograd"] if here else []), str(script), str(given)]
    path = os.pathsep.join([str(ROOT / "src"), str(folder)])
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    last = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS")]
    if not last:
        return {"": ["failed", done.stderr.strip().splitlines()[-1]]}
    found: dict[str, list[str]] = json.loads(last[-1].removeprefix("ANSWERS"))
    return found


def agree(ours: str, theirs: str) -> bool:
    """Whether two texts are the same, but for the last digits of their numbers."""
    ours = ours.replace("retrograd.", "torch.")
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(abs(float(a) - float(b)) <= 1e-3 * max(1.0, abs(float(b))) for a, b in pairs)


def row(folder: Path, name: str, expected: dict[str, dict[str, list[str]]]) -> str:
    """A line of the table; what PyTorch printed is added to ``expected``.

    Each package has a folder of its own, because some behave otherwise if they find others:
    torchvision's kernels fit one build of PyTorch.
    """
    folder = folder / name
    folder.mkdir(exist_ok=True)
    install(folder, name)
    spelled = name.replace("-", "_").lower()
    version = next(d.version for d in metadata.distributions(path=[str(folder)])
                   if d.metadata["Name"].replace("-", "_").lower() == spelled)  # fmt: skip
    programs = PACKAGES[name].programs
    ours, theirs = (answers(folder, programs, here) for here in (True, False))
    runs, fails = [], []
    for title in programs:
        kind, said = ours.get(title, ours.get("", ["failed", "?"]))
        other, wanted = theirs.get(title, theirs.get("", ["failed", "?"]))
        if other != "printed":
            fails.append(f"{title}: fails with PyTorch here too ({short(wanted)})")
            continue
        expected.setdefault(name, {})[title] = wanted.splitlines()
        if kind != "printed":
            fails.append(f"{title}: {short(said)}")
        elif agree(said, wanted):
            runs.append(title)
        else:
            fails.append(f"{title}: prints something else")
    return f"| {name} | {version} | {', '.join(runs)} | {'; '.join(fails)} |"


def short(text: str) -> str:
    """The first line of an error, for a table."""
    line = text.splitlines()[0].replace("|", "/").replace(str(ROOT), "")
    return f"`{re.sub(r'/[^ ]*/', '', line)[:140]}`"


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    expected: dict[str, dict[str, list[str]]] = {}
    for name in arguments[1:] or PACKAGES:
        rows.append(row(folder, name, expected))
        print(rows[-1], flush=True)
    if arguments[1:]:
        return
    PAGE.write_text(page(rows), encoding="utf-8")
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(rows: list[str]) -> str:
    """The page with the table."""
    return (
        "# Compatibility\n\n"
        "Of the 676 entries of PyTorch's own list of tested operations that are public and take "
        "dense tensors, 669 (99.0 %) agree on PyTorch's samples in value, gradient, tangent, "
        "second gradient and under `vmap`; the others differ on purpose. "
        "`python tests/opinfo_coverage.py` compares them and names the reasons.\n\n"
        "Third-party packages that import `torch`, installed without PyTorch and run with "
        "`python -m retrograd`. Written by `python tests/compatibility.py`, which runs the same "
        "programs with PyTorch 2.13; what is listed under \"runs\" prints the same. CI runs all "
        "but the larger models of torchvision again, in these versions.\n\n"
        "| package | version | runs | does not run, and why |\n| --- | --- | --- | --- |\n"
        + "\n".join(rows) + "\n"
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
