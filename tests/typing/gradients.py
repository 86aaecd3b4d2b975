"""Gradients: backward, grad, hooks, modes, custom Functions, checkpoints, gradcheck."""

from typing import Any

import retrograd as torch
from retrograd import Tensor, nn
from retrograd.autograd import Function
from retrograd.autograd.function import FunctionCtx
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        result: Tensor = 3 * x**2 * grad_output
        return result


class Scale(Function):
    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * ctx.factor, None


def cube(x: Tensor) -> Tensor:
    result: Tensor = Cube.apply(x)
    return result


def hooks() -> list[Tensor]:
    seen: list[Tensor] = []
    x = torch.ones(2, requires_grad=True)
    handle = x.register_hook(lambda grad: grad * 2)
    y = x * 3
    y.retain_grad()
    y.register_hook(seen.append)
    y.sum().backward(retain_graph=True)
    handle.remove()
    assert x.grad is not None
    assert y.grad is not None
    seen += [x.grad, y.grad]
    layer = nn.Linear(2, 2)

    def forward_hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append(output)

    def backward_hook(
        module: nn.Module, grad_input: tuple[Tensor | None, ...], grad_output: tuple[Tensor, ...]
    ) -> None:
        seen.append(grad_output[0])

    layer.register_forward_hook(forward_hook)
    layer.register_full_backward_hook(backward_hook)
    layer(x).sum().backward()
    node = y.grad_fn
    assert node is not None
    assert node.next_functions[0][0] is not None
    return seen


def modes(x: Tensor) -> bool:
    with torch.no_grad():
        a = x * 2
    with torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
        b = x * 2
    with torch.inference_mode():
        c = x * 2
    with torch.set_grad_enabled(False), torch.autograd.graph.save_on_cpu():
        d = x * 2
    return a.requires_grad or c.requires_grad or d.requires_grad or not b.requires_grad


def main() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.double, requires_grad=True)
    (first,) = torch.autograd.grad(cube(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad([first.sum()], [x], grad_outputs=None, retain_graph=True)
    scaled: Tensor = Scale.apply(x, 2.0)
    assert torch.autograd.gradcheck(cube, (x,))
    assert torch.autograd.gradgradcheck(cube, (x,))
    again: Tensor = checkpoint(cube, x, use_reentrant=False)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    chain: Tensor = checkpoint_sequential(model, 2, x, use_reentrant=False)
    torch.autograd.backward([again.sum(), chain.sum(), scaled.sum()])
    jacobian = torch.autograd.functional.jacobian(cube, x)
    print(second, x.grad, len(hooks()), modes(x), jacobian)


if __name__ == "__main__":
    main()
