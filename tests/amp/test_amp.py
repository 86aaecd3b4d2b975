"""Lower precision: ``autocast`` computes what PyTorch does; losses are scaled."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as ours

theirs = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")

EXPRESSIONS = """
    a @ b; a @ v; v @ v; torch.mv(a, v); torch.bmm(c, c); F.linear(c, a, v); F.linear(a, b, v)
    F.linear(a, b); F.conv1d(c, c); F.conv2d(i, w, v[:2]); F.conv_transpose2d(i, w)
    torch.addmm(a, a, b); torch.baddbmm(c, c, c); torch.matmul(c, b); a.mm(b); a.matmul(b)
    torch.einsum('ij,jk->ik', a, b); F.scaled_dot_product_attention(c, c, c); F.prelu(a, v[:1])
    a + b.half(); a.half().exp(); a.half().softmax(-1); a.half().log_softmax(-1)
    F.cross_entropy(a.half(), t); F.cross_entropy(a.half(), b.softmax(-1)); a.half().prod()
    F.mse_loss(a.half(), b.half()); F.l1_loss(a.half(), b.half()); F.nll_loss(a.half(), t)
    F.binary_cross_entropy(a.half().sigmoid(), b.sigmoid()); a.half().trace(); a.half().sum()
    F.binary_cross_entropy_with_logits(a.half(), b.half()); torch.cat([a, b.half()])
    torch.cat([a.half(), b.half()]); torch.stack([a.half(), b]); torch.quantile(a.half(), 0.5)
    F.layer_norm(a, (3,)); F.layer_norm(a.half(), (3,)); F.gelu(a.half()); a.double() @ b.double()
    t @ t; F.kl_div(a.half().log_softmax(-1), b.half().softmax(-1), reduction='sum')
    F.smooth_l1_loss(a.half(), b.half()); torch.linalg.inv(a) @ a; torch.cdist(a, b)
    F.batch_norm(i.half(), None, None, training=True); F.max_pool2d(i.half(), 2)
    torch.outer(v, v); a.half().norm(); a.half() ** 2; F.interpolate(i.half(), scale_factor=2)
    (torch.manual_seed(0), torch.nn.MultiheadAttention(3, 1, batch_first=True))[1](c, c, c)[0]
    (torch.manual_seed(0), torch.nn.Conv2d(2, 3, 2))[1](i).relu()
"""
CASES = [e.strip() for line in EXPRESSIONS.splitlines() for e in line.split(";") if e.strip()]


def outcome(t: Any, expression: str, lower: str) -> tuple[str, Any, list[Any]]:
    """The dtype, the value and the gradients under autocast."""
    draw = np.random.default_rng(1)

    def made(*shape: int) -> Any:
        return t.tensor(draw.standard_normal(shape).astype(np.float32).tolist(), requires_grad=True)

    names = {
        "torch": t, "F": t.nn.functional, "a": made(3, 3), "b": made(3, 3), "v": made(3),
        "c": made(2, 3, 3), "i": made(1, 2, 4, 4), "w": made(2, 2, 2, 2),
        "t": t.tensor([0, 1, 2]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autocast("cpu", dtype=getattr(t, lower)):
            result = eval(expression, names)
    leaves = [x for x in names.values() if isinstance(x, t.Tensor) and x.requires_grad]
    gradients = []
    if result.requires_grad:
        weights = t.arange(1.0, 1 + result.numel()).reshape(result.shape) / result.numel()
        found = t.autograd.grad((result.float() * weights).sum(), leaves, allow_unused=True)
        gradients = [None if g is None else (str(g.dtype), g.numpy()) for g in found]
    return str(result.dtype), result.detach().double().numpy(), gradients


@pytest.mark.parametrize("lower", ["float16", "bfloat16"])
@pytest.mark.parametrize("expression", CASES)
def test_what_pytorch_computes(expression: str, lower: str) -> None:
    if lower == "bfloat16":
        expression = expression.replace(".half()", ".bfloat16()")
    (dtype, value, grads), (expected, reference, references) = (
        outcome(library, expression, lower) for library in (ours, theirs)
    )
    assert dtype == expected
    near = 4e-3 if lower == "float16" else 1.6e-2
    np.testing.assert_allclose(value, reference, rtol=near, atol=near)
    for mine, other in zip(grads, references, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None and other is not None:
            assert mine[0] == other[0]
            np.testing.assert_allclose(mine[1], other[1], rtol=1.5 * near, atol=1.5 * near)


def test_lower_precision_is_real() -> None:
    x = ours.tensor([[1.0, 1e-4]])
    with ours.autocast("cpu", dtype=ours.float16):
        assert float((x + 1).sum()) != 3
        product = x @ ours.tensor([[2048.0], [10000.0]])
    assert product.item() == 2050.0  # 2049 is between two numbers of float16
    assert (x @ ours.tensor([[2048.0], [10000.0]])).item() == 2049.0


def training(
    t: Any, scaler: Any, checkpointed: bool = False, lower: str = "float16"
) -> list[float]:
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.Tanh(), t.nn.Linear(16, 4))
    x, y = t.randn(5, 8), t.tensor([0, 1, 2, 3, 0])
    optimizer = t.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        with t.autocast("cpu", dtype=getattr(t, lower)):
            if checkpointed:
                output = t.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
            else:
                output = model(x)
            loss = t.nn.functional.cross_entropy(output, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def test_training_as_in_pytorch() -> None:
    mine, reference = (t.amp.GradScaler("cpu", init_scale=2.0**10) for t in (ours, theirs))
    found, expected = training(ours, mine), training(theirs, reference)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert mine.state_dict() == reference.state_dict()
    assert found[-1] < found[0]


def test_checkpointing_runs_again_in_lower_precision() -> None:
    plain = training(ours, ours.amp.GradScaler("cpu"))
    assert training(ours, ours.amp.GradScaler("cpu"), checkpointed=True) == plain


def test_infinite_gradients_leave_a_step_out() -> None:
    states = []
    for t in (ours, theirs):
        w = t.tensor([1.0], requires_grad=True)
        optimizer = t.optim.SGD([w], lr=0.1)
        scaler = t.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        seen = []
        for grad in (1.0, float("inf"), 1.0, 2.0, float("nan"), 1.0):
            optimizer.zero_grad()
            scaler.scale(grad * w.sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append((w.item(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
        states.append(seen)
    assert states[0] == states[1]


def test_errors_of_the_scaler() -> None:
    def messages(t: Any) -> list[str]:
        w = t.tensor([1.0], requires_grad=True)
        optimizer = t.optim.SGD([w], lr=0.1)
        scaler = t.amp.GradScaler("cpu")
        found = []

        def tried(function: Any, *args: Any) -> None:
            with pytest.raises((AssertionError, RuntimeError, ValueError)) as caught:
                function(*args)
            found.append(f"{type(caught.value).__name__}: {caught.value}")

        tried(scaler.unscale_, optimizer)
        tried(scaler.update)
        scaler.scale(w.sum())
        tried(scaler.step, optimizer)
        scaler = t.amp.GradScaler("cpu")
        scaler.scale(w.sum()).backward()
        scaler.unscale_(optimizer)
        tried(scaler.unscale_, optimizer)
        scaler.step(optimizer)
        tried(scaler.step, optimizer)
        tried(scaler.unscale_, optimizer)
        tried(scaler.load_state_dict, {})
        half = t.tensor([1.0], dtype=t.float16, requires_grad=True)
        half.grad = t.ones(1, dtype=t.float16)
        scaler = t.amp.GradScaler("cpu")
        scaler.scale(w.sum())
        tried(scaler.unscale_, t.optim.SGD([half], lr=0.1))
        return found

    assert messages(ours) == messages(theirs)


def test_states_of_the_scaler() -> None:
    first, second = ours.amp.GradScaler("cpu", init_scale=8.0), ours.amp.GradScaler("cpu")
    first.scale(ours.ones(1))
    second.load_state_dict(first.state_dict())
    assert second.get_scale() == 8
    assert pickle.loads(pickle.dumps(first.state_dict())) == first.state_dict()
    assert [x.tolist() for x in first.scale([ours.ones(1), ours.ones(2)])] == [[8.0], [8.0, 8.0]]
    first.update(3.0)
    assert first.get_scale() == 3


# -- without a GPU, and bfloat16 ---------------------------------------------------------


def test_a_gpu_that_is_not_there_disables_it_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = ours.autocast("cuda")
    with context:
        assert (ours.ones(2, 2) @ ours.ones(2, 2)).dtype is ours.float32
        assert not ours.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        scaler = ours.cuda.amp.GradScaler()
    w = ours.tensor([1.0], requires_grad=True)
    optimizer = ours.optim.SGD([w], lr=0.1)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == pytest.approx(0.9)
    assert (scaler.is_enabled(), scaler.get_scale(), scaler.state_dict()) == (False, 1.0, {})


def test_contexts() -> None:
    def product() -> Any:
        return (ours.ones(2, 2) @ ours.ones(2, 2)).dtype

    with ours.autocast("cpu", dtype=ours.float16):
        assert ours.is_autocast_enabled("cpu")
        assert ours.get_autocast_dtype("cpu") is ours.float16
        with ours.autocast("cpu", enabled=False):
            assert product() is ours.float32
        assert product() is ours.float16
        with ours.no_grad():
            assert product() is ours.float16
    assert product() is ours.float32
    assert ours.autocast("cpu", dtype=ours.float16)(product)() is ours.float16
    for t in (ours, theirs):
        with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not"):
            t.autocast("cpu", dtype=t.float64)
        with pytest.raises(TypeError, match="requires a callable, but got int"):
            t.autocast("cpu", dtype=t.float16)(3)


def test_other_devices() -> None:
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'abc'"):
        ours.autocast("abc")
    for t in (ours, theirs):
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class"):
            t.autocast(3)


def test_bfloat16_as_a_dtype() -> None:
    for t in (ours, theirs):
        others = [t.bool, t.uint8, t.int64, t.float16, t.float32, t.float64, t.complex64]
        found = [str(t.promote_types(t.bfloat16, other)) for other in others]
        assert found == ["torch.bfloat16"] * 3 + ["torch.float32"] * 2 + [
            "torch.float64", "torch.complex64"]  # fmt: skip
        limits = t.finfo(t.bfloat16)
        assert (limits.eps, limits.max, limits.tiny, limits.bits, limits.resolution) == (
            0.0078125, 3.3895313892515355e38, 1.1754943508222875e-38, 16, 0.01)  # fmt: skip
        assert (t.bfloat16.itemsize, t.bfloat16.is_floating_point) == (2, True)
        assert t.can_cast(t.bfloat16, t.float32)
        assert pickle.loads(pickle.dumps(t.bfloat16)) is t.bfloat16


def test_bfloat16_in_files() -> None:
    import io

    file = io.BytesIO()
    theirs.save({"dtype": theirs.bfloat16, "x": theirs.ones(2, dtype=theirs.bfloat16)}, file)
    file.seek(0)
    back = ours.load(file)
    assert back["dtype"] is ours.bfloat16
    assert back["x"].tolist() == [1, 1]
    for kind in ("pt", "safetensors"):
        file = io.BytesIO()
        ours.save({"dtype": ours.bfloat16, "n": 1}, file, format=kind)
        file.seek(0)
        assert ours.load(file) == {"dtype": ours.bfloat16, "n": 1}


# -- training in bfloat16 ----------------------------------------------------------------------


def block(t: Any, width: int, heads: int) -> Any:
    """A block of a transformer."""
    f = t.nn.functional

    class Block(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = t.nn.LayerNorm(width), t.nn.LayerNorm(width)
            self.project, self.merge = t.nn.Linear(width, 3 * width), t.nn.Linear(width, width)
            self.up, self.down = t.nn.Linear(width, 4 * width), t.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            parts = self.project(self.before(x)).view(n, length, 3, heads, width // heads)
            mixed = f.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
            x = x + self.merge(mixed.transpose(1, 2).reshape(n, length, width))
            return x + self.down(f.gelu(self.up(self.between(x))))

    return Block()


def language_model(t: Any, pure: bool) -> list[float]:
    """The losses of a small model in 20 steps: under autocast, or of bfloat16 altogether."""
    t.manual_seed(0)
    model = t.nn.Sequential(
        t.nn.Embedding(11, 16), block(t, 16, 2), block(t, 16, 2), t.nn.LayerNorm(16),
        t.nn.Linear(16, 11),
    )  # fmt: skip
    if pure:
        model.to(t.bfloat16)
    optimizer = t.optim.AdamW(model.parameters(), lr=3e-3)
    data = t.randint(11, (4, 9))
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with t.autocast("cpu", enabled=not pure):
            scores = model(data[:, :-1])
            assert scores.dtype is t.bfloat16
            loss = t.nn.functional.cross_entropy(scores.flatten(0, 1), data[:, 1:].flatten())
        assert loss.dtype is (t.bfloat16 if pure else t.float32)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("pure", [False, True])
def test_a_language_model_in_bfloat16(pure: bool) -> None:
    mine, reference = (language_model(t, pure) for t in (ours, theirs))
    assert mine[-1] < 0.7 * mine[0]
    np.testing.assert_allclose(mine, reference, rtol=2e-2 if pure else 4e-3)


def test_scaling_and_checkpoints_in_bfloat16() -> None:
    mine, reference = (
        training(t, t.amp.GradScaler("cpu"), lower="bfloat16") for t in (ours, theirs)
    )
    np.testing.assert_allclose(mine, reference, rtol=4e-3)
    again = training(ours, ours.amp.GradScaler("cpu"), checkpointed=True, lower="bfloat16")
    assert again == mine
    with ours.autocast("cpu"):
        assert ours.get_autocast_dtype("cpu") is ours.bfloat16
        x = ours.tensor([[1.0, 1e-3]]) @ ours.tensor([[1.0], [1.0]])
    assert x.item() == 1.0  # the sum is between two numbers of bfloat16
