"""Compiled modules are modules: optimizers, outer modules and copies find their parameters."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F


def layers() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Linear(3, 1))


def test_a_compiled_module_is_trained_by_its_own_parameters() -> None:
    model, twin = layers(), layers()
    compiled = torch.compile(model)
    assert isinstance(compiled, nn.Module)
    assert [p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True)] == [
        True, True, True, True,
    ]  # fmt: skip
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (compiled, twin)]
    for _ in range(3):
        x = torch.randn(5, 2)
        for m, optimizer in zip((compiled, twin), optimizers, strict=True):
            torch.manual_seed(1)
            optimizer.zero_grad()
            F.mse_loss(m(x), torch.zeros(5, 1)).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())
    assert len(compiled.entries) == 1


def test_a_compiled_module_inside_of_a_module_is_part_of_it() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.compile(nn.Linear(2, 2))
            self.head = nn.Linear(2, 1)

        def forward(self, x: Any) -> Any:
            return self.head(self.encoder(x))

    model = Model()
    names = ["encoder._orig_mod.weight", "encoder._orig_mod.bias", "head.weight", "head.bias"]
    assert [name for name, _ in model.named_parameters()] == names == list(model.state_dict())
    outer = torch.compile(model, fullgraph=True)
    x = torch.ones(3, 2)
    expected = model.head(model.encoder._orig_mod(x)).tolist()
    for _ in range(2):
        assert outer(x).tolist() == expected


def test_attributes_of_a_compiled_module_are_those_of_the_module() -> None:
    model = layers()
    model.scale = 2
    compiled = torch.compile(model)
    assert compiled.eval() is compiled
    assert (model.training, model[1].training, compiled.training) == (False, False, False)
    compiled.scale = 5
    assert (model.scale, compiled.scale) == (5, 5)
    del compiled.scale
    assert not hasattr(model, "scale")
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'missing'"):
        _ = compiled.missing
    compiled.double()
    assert compiled(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float64
    assert compiled.source.startswith("def Sequential(")
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(\n")


def test_hooks_of_a_compiled_module_run_around_its_program() -> None:
    model = layers().eval()
    compiled = torch.compile(model)
    x = torch.ones(1, 2)
    expected = model(x).item()
    handle = compiled.register_forward_hook(lambda module, args, result: result * 2)
    assert [compiled(x).item() for _ in range(2)] == [2 * expected] * 2
    handle.remove()
    assert compiled(x).item() == expected


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_compiled_modules_have_parameters_and_programs_of_their_own(copied: Any) -> None:
    compiled = torch.compile(layers().eval())
    x = torch.ones(1, 2)
    expected = compiled(x).item()
    twin = copied(compiled)
    with torch.no_grad():
        twin._orig_mod[2].bias += 1
    assert twin(x).item() == pytest.approx(expected + 1)
    assert compiled(x).item() == expected
    assert len(compiled.entries) == len(twin.entries) == 1


def test_a_copy_of_a_module_with_a_compiled_method_calls_its_own() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.fast = torch.compile(self.slow)

        def slow(self, x: Any) -> Any:
            return self.layer(x)

    model = Model()
    x = torch.ones(1)
    expected = model.fast(x).item()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.layer.bias += 1
    assert twin.fast(x).item() == pytest.approx(expected + 1)
    assert model.fast(x).item() == expected


def test_the_warning_about_a_module_names_the_line_that_called_it() -> None:
    class Peeks(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    compiled = torch.compile(Peeks())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(torch.ones(2))
    assert [w.filename for w in caught] == [__file__]
