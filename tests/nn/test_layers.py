"""Every layer beside PyTorch's: how it prints, what it starts from, its state, its results and its
gradients, in both precisions."""

from typing import Any

import numpy as np
import pytest

import retrograd

CASES: list[tuple[str, list[tuple[int, ...]]]] = []  # an expression that makes it; input shapes


def case(expression: str, *shapes: tuple[int, ...]) -> None:
    CASES.append((expression, list(shapes)))


for _name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "ELU", "CELU", "LeakyReLU", "Hardtanh"):
    case(f"nn.{_name}()", (2, 3))
    case(f"nn.Sequential(nn.Linear(3, 3), nn.{_name}(inplace=True))", (2, 3))
for _name in ("Hardsigmoid", "Hardswish", "Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink",
              "GELU", "Softplus", "Hardshrink", "Softshrink", "PReLU", "Identity"):  # fmt: skip
    case(f"nn.{_name}()", (2, 3))
for _expression in (
    "nn.ELU(0.5)", "nn.CELU(2.0)", "nn.LeakyReLU(0.2)", "nn.Threshold(0.1, 20.0)",
    "nn.Hardtanh(-0.5, 2.0)", "nn.RReLU().eval()", "nn.GELU('tanh')", "nn.Softplus(2.0, 1.0)",
    "nn.Hardshrink(0.2)", "nn.Softshrink(0.3)", "nn.Softmax(1)", "nn.Softmin(0)",
    "nn.LogSoftmax(dim=1)", "nn.Dropout(0.3).eval()", "nn.AlphaDropout().eval()",
    "nn.Flatten(0)", "nn.Unflatten(1, (3, 1))", "nn.LayerNorm(3)", "nn.RMSNorm(3)",
    "nn.LayerNorm((2, 3), bias=False)", "nn.LayerNorm(3, elementwise_affine=False)",
    "nn.Linear(3, 4)", "nn.Linear(3, 4, bias=False)", "nn.InstanceNorm1d(2)",
):  # fmt: skip
    case(_expression, (2, 3))
for _expression in ("", ", affine=False", ", momentum=None", ", track_running_stats=False"):
    case(f"nn.BatchNorm1d(3{_expression})", (6, 3))
    case(f"nn.BatchNorm1d(3{_expression}).eval()", (6, 3))
case("nn.GLU()", (2, 4))
case("nn.PReLU(3)", (2, 3, 4))
case("nn.Softmax2d()", (2, 3, 4, 4))
case("nn.Bilinear(3, 4, 2)", (5, 3), (5, 4))
case("nn.Bilinear(3, 4, 2, bias=False)", (5, 3), (5, 4))
for _expression in ("3, 4, 2", "3, 4, 3, stride=2, padding=1", "3, 4, 3, dilation=2, bias=False"):
    case(f"nn.Conv1d({_expression})", (2, 3, 7))
    case(f"nn.Conv2d({_expression})", (2, 3, 7, 6))
    case(f"nn.Conv3d({_expression})", (1, 3, 6, 6, 5))
    for _n, _shape in ((1, (2, 3, 5)), (2, (2, 3, 4, 5)), (3, (1, 3, 3, 3, 3))):
        case(f"nn.ConvTranspose{_n}d({_expression})", _shape)
case("nn.Conv2d(4, 6, 3, groups=2)", (2, 4, 5, 5))
case("nn.Conv2d(3, 4, 3, padding='same', padding_mode='reflect')", (2, 3, 5, 5))
case("nn.Conv2d(3, 4, (3, 2), padding=(1, 0), padding_mode='circular')", (2, 3, 5, 5))
case("nn.Conv1d(3, 4, 3, padding='valid', padding_mode='replicate')", (2, 3, 5))
case("nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2)", (2, 4, 4, 4))
for _n, _shape in ((1, (2, 3, 8)), (2, (2, 3, 8, 6)), (3, (1, 3, 4, 4, 4))):
    for _expression in (
        f"MaxPool{_n}d(2)", f"MaxPool{_n}d(3, stride=1, padding=1)", f"AvgPool{_n}d(2)",
        f"AvgPool{_n}d(2, 1, ceil_mode=True)", f"LPPool{_n}d(2, 2)", f"AdaptiveMaxPool{_n}d(3)",
        f"AdaptiveAvgPool{_n}d(2)", f"BatchNorm{_n}d(3)", f"InstanceNorm{_n}d(3, affine=True)",
        f"InstanceNorm{_n}d(3, track_running_stats=True)", f"ConstantPad{_n}d(1, 2.5)",
        f"ZeroPad{_n}d(1)", f"ReflectionPad{_n}d(1)", f"ReplicationPad{_n}d(2)",
        f"CircularPad{_n}d(1)", f"Dropout{_n}d(0.2).eval()",
    ):  # fmt: skip
        case(f"nn.{_expression}", _shape)
case("nn.GroupNorm(2, 4)", (2, 4, 3))
case("nn.GroupNorm(2, 4, affine=False)", (2, 4, 3))
case("nn.LocalResponseNorm(2)", (2, 4, 3))
case("nn.PixelShuffle(2)", (1, 4, 2, 2))
case("nn.PixelUnshuffle(2)", (1, 1, 4, 4))
case("nn.ChannelShuffle(2)", (1, 4, 2, 2))
case("nn.Upsample(scale_factor=2)", (1, 2, 3, 3))
case("nn.Upsample(size=(5, 7), mode='bilinear')", (1, 2, 3, 3))
case("nn.Upsample(scale_factor=(2.0, 3.0), mode='bilinear', align_corners=True)", (1, 2, 3, 3))
case("nn.UpsamplingNearest2d(scale_factor=2)", (1, 2, 3, 3))
case("nn.UpsamplingBilinear2d(scale_factor=2)", (1, 2, 3, 3))
case("nn.Fold((4, 5), 2)", (1, 8, 12))
case("nn.Unfold(2)", (1, 2, 4, 5))
case("nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), "
     "nn.Linear(18, 4))", (2, 1, 5, 5))  # fmt: skip
case("nn.ModuleDict({'a': nn.Linear(2, 2), 'b': nn.ModuleList([nn.ReLU(), nn.ReLU()])})")
case("nn.ParameterList([torch.ones(2), torch.zeros(1, 2)])")
case("nn.ParameterDict({'a': torch.ones(2)})")
case("nn.MaxUnpool2d(2, stride=2)")
case("nn.Embedding(5, 3, padding_idx=1)")
case("nn.Embedding(5, 3, max_norm=1.0, scale_grad_by_freq=True)")
case("nn.EmbeddingBag(5, 3, mode='sum')")


def made(library: Any, expression: str) -> Any:
    library.manual_seed(7)
    return eval(expression, {"nn": library.nn, "torch": library})


def arrays(module: Any) -> dict[str, np.ndarray]:
    return {name: x.detach().numpy().copy() for name, x in module.state_dict().items()}


@pytest.mark.parametrize(("expression", "shapes"), CASES, ids=[c[0][:60] for c in CASES])
def test_layer_is_pytorchs(torch: Any, expression: str, shapes: list[tuple[int, ...]]) -> None:
    theirs, ours = made(torch, expression), made(retrograd, expression)
    assert repr(ours) == repr(theirs)
    start = arrays(theirs)
    assert list(arrays(ours)) == list(start)
    for name, value in arrays(ours).items():
        assert np.array_equal(value, start[name]), f"{name} starts from other numbers"
    if not shapes:
        return
    random = np.random.default_rng(1)
    inputs = [random.standard_normal(shape) for shape in shapes]
    # PyTorch takes a sixth in single precision, also in double.
    fine = 1e-7 if "Hardsig" in expression or "Hardswish" in expression else 1e-10
    for dtype, tolerance in ((np.float64, fine), (np.float32, 2e-5)):
        found = [run(lib, m, inputs, dtype) for lib, m in ((torch, theirs), (retrograd, ours))]
        assert found[0].keys() == found[1].keys()
        for key, value in found[0].items():
            np.testing.assert_allclose(
                found[1][key], value, rtol=tolerance, atol=tolerance * (1 + np.abs(value).max()),
                err_msg=key,
            )  # fmt: skip


def run(library: Any, module: Any, inputs: list[Any], dtype: Any) -> dict[str, np.ndarray]:
    """Results, gradients and the state after one pass."""
    module.to(getattr(library, np.dtype(dtype).name))
    module.zero_grad()
    given = [library.from_numpy(x.astype(dtype)).requires_grad_() for x in inputs]
    result = module(*given)
    found = {"result": result.detach().numpy()}
    weight = np.cos(np.arange(result.numel())).reshape(tuple(result.shape)).astype(dtype)
    (result * library.from_numpy(weight)).sum().backward()
    for i, x in enumerate(given):
        found[f"gradient of input {i}"] = x.grad.numpy()
    for name, parameter in module.named_parameters():
        found[f"gradient of {name}"] = parameter.grad.numpy()
    for name, value in module.state_dict().items():
        found[f"state {name}"] = value.numpy()
    return found


LOSSES = {  # the loss, and the arrays it is given besides the first, by names below
    "L1Loss()": "numbers", "L1Loss(reduction='sum')": "numbers", "MSELoss()": "numbers",
    "MSELoss(size_average=False)": "numbers", "MSELoss(reduce=False)": "numbers",
    "SmoothL1Loss(beta=0.5)": "numbers", "HuberLoss(delta=0.7)": "numbers",
    "PoissonNLLLoss(full=True)": "positive", "GaussianNLLLoss(full=True)": "numbers positive",
    "CrossEntropyLoss()": "classes", "CrossEntropyLoss(label_smoothing=0.2)": "classes",
    "CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), ignore_index=1)": "classes",
    "NLLLoss(reduction='none')": "classes", "KLDivLoss(reduction='batchmean')": "positive",
    "BCEWithLogitsLoss()": "truths", "MultiMarginLoss(p=2)": "classes",
    "BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 0.5]))": "truths",
    "SoftMarginLoss()": "signs", "MultiLabelSoftMarginLoss()": "truths",
    "MultiLabelMarginLoss()": "places", "HingeEmbeddingLoss(margin=0.5)": "signs",
    "CosineEmbeddingLoss(margin=0.1)": "numbers sign", "MarginRankingLoss()": "numbers signs",
    "TripletMarginLoss(swap=True)": "numbers positive", "PairwiseDistance(p=1)": "numbers",
    "TripletMarginWithDistanceLoss()": "numbers positive", "CosineSimilarity(dim=0)": "numbers",
}


@pytest.mark.parametrize("expression", LOSSES)
@pytest.mark.filterwarnings("ignore:size_average and reduce args:UserWarning")
def test_loss_is_pytorchs(torch: Any, expression: str) -> None:
    random = np.random.default_rng(2)
    given = {
        "numbers": random.standard_normal((4, 3)), "positive": random.uniform(0.5, 2, (4, 3)),
        "classes": np.array([2, 0, 1, 1]), "truths": np.eye(3)[[0, 2, 1, 1]],
        "signs": np.sign(random.standard_normal((4, 3))), "sign": np.array([1.0, -1, 1, -1]),
        "places": np.array([[2, 0, -1], [1, -1, 0], [0, 1, 2], [-1, 0, 0]]),
    }
    x, found = random.standard_normal((4, 3)), []
    for library in (torch, retrograd):
        module = made(library, f"nn.{expression}").double()
        first = library.from_numpy(x.copy()).requires_grad_()
        others = [library.from_numpy(given[name].copy()) for name in LOSSES[expression].split()]
        result = module(first, *others)
        (result * result).sum().backward()
        found.append((repr(module), list(module.state_dict()), result.detach().numpy(),
                      first.grad.numpy()))  # fmt: skip
    assert found[0][:2] == found[1][:2]
    for a, b in zip(found[0][2:], found[1][2:], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_tables_of_vectors(torch: Any, mode: str) -> None:
    places = np.array([[1, 2, 4], [4, 0, 1]])
    bag = f"nn.EmbeddingBag(5, 3, mode={mode!r})"
    for expression in ("nn.Embedding(5, 3, padding_idx=1)", bag):
        found = []
        for library in (torch, retrograd):
            module = made(library, expression)
            result = module(library.from_numpy(places))
            (result * result).sum().backward()
            found.append((result.detach().numpy(), module.weight.grad.numpy()))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_weights_move_between_the_libraries(torch: Any) -> None:
    expression = "nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), "
    expression += "nn.Linear(18, 4))"
    theirs, ours = made(torch, expression), made(retrograd, expression)
    with torch.no_grad():
        for p in theirs.parameters():
            p.mul_(1.5)
    state = {n: retrograd.from_numpy(a) for n, a in arrays(theirs).items()}
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>"
    x = np.random.default_rng(0).standard_normal((2, 1, 5, 5)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    got = ours(retrograd.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
