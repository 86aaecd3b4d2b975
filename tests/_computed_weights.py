"""Modules with computed weights, as text that runs with any library that has PyTorch's names."""

from __future__ import annotations

from typing import Any

DEFINITIONS = """
import copy, warnings
import numpy as np
P, Z = nn.utils.parametrizations, nn.utils.parametrize
f64 = torch.float64

class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT
    def right_inverse(self, x):
        return x.triu()

class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x
    def right_inverse(self, x):
        return x / 2

class Exp(nn.Module):
    def forward(self, x):
        return x.exp()

class Sum(nn.Module):
    def forward(self, x, y):
        return x + y * y
    def right_inverse(self, z):
        return z / 2, (z / 2).abs().sqrt()

class Fixed(nn.Module):  # gives what it is told to
    def __init__(self, forward, back=None):
        super().__init__()
        self.result = forward
        if back is not None:
            self.right_inverse = back
    def forward(self, *args):
        return self.result(*args)

def linear(*sizes):
    return nn.Linear(*sizes, dtype=f64)

def parametrized(module, *parametrizations, name="weight", **options):
    for one in parametrizations:
        Z.register_parametrization(module, name, one, **options)
    return module

def older(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return function(*args, **kwargs)

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = linear(3, 3)
        self.second = linear(3, 3)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second(self.first(x).tanh())

def tied():
    module = Tied()
    P.weight_norm(module.first)
    Z.register_parametrization(module.second, "weight", Symmetric())
    return module

def attempt(function, *args, **kwargs):
    try:
        print(function(*args, **kwargs))
    except Exception as error:
        print(type(error).__name__, str(error))
"""


def space(library: Any) -> dict[str, Any]:
    names = {"torch": library, "nn": library.nn, "F": library.nn.functional}
    exec(DEFINITIONS, names)
    return names
