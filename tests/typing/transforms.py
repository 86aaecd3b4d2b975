"""Transforms of functions, and calls of modules with other parameters."""

import retrograd as torch
from retrograd import Tensor, nn
from retrograd.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)


def energy(x: Tensor) -> Tensor:
    return (x**2).sum() / 2 + x.prod()


def with_aux(x: Tensor) -> tuple[Tensor, Tensor]:
    return energy(x), x.detach()


def per_sample_gradients(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        prediction: Tensor = functional_call(model, parameters, (x.unsqueeze(0),))
        return nn.functional.mse_loss(prediction, y.unsqueeze(0))

    result: dict[str, Tensor] = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return result


def main() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    gradient: Tensor = grad(energy)(x)
    value, tangent = jvp(energy, (x,), (torch.ones(3),))
    result, pull_back = vjp(energy, x)
    (pulled,) = pull_back(torch.tensor(1.0))
    both, aux = grad(with_aux, has_aux=True)(x)
    slope, height = grad_and_value(energy)(x)
    rows: Tensor = vmap(energy, in_dims=0, out_dims=0)(torch.ones(4, 3))
    curvature: Tensor = hessian(energy)(x)
    same = torch.allclose(jacrev(grad(energy))(x), jacfwd(grad(energy))(x))
    model = nn.Linear(3, 1)
    gradients = per_sample_gradients(model, torch.ones(5, 3), torch.zeros(5, 1))
    parameters, buffers = stack_module_state([nn.Linear(3, 1), nn.Linear(3, 1)])
    print(gradient, value, tangent, result, pulled, both, aux, slope, height, rows.shape, curvature)
    print(same, gradients["weight"].shape, parameters["weight"].shape, len(buffers))


if __name__ == "__main__":
    main()
