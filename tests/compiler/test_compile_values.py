"""Python values that a compiled function can see, and that change between its calls."""

import argparse
import collections
import contextvars
import functools
import operator
import os
import random
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn

settings: Any = types.ModuleType("settings_of_a_test")
settings.part = types.ModuleType("settings_of_a_test.part")
sys.modules.update({module.__name__: module for module in (settings, settings.part)})

Case = tuple[Callable[[Any], Any], Callable[[float], Any]]


class Plain:
    """An object with attributes that are set from outside."""

    factor: Any


def of_a_namespace(kind: Any) -> Case:
    box = kind(factor=2.0)
    return lambda x: x * box.factor, lambda new: setattr(box, "factor", new)


def of_a_list_in_a_class() -> Case:
    class Scaled:
        factors = (2.0, [2.0])

        def __call__(self, x: Any) -> Any:
            return x * self.factors[1][0]

    return Scaled(), lambda new: operator.setitem(Scaled.factors[1], 0, new)


def of_an_object_in_a_class() -> Case:
    class Scaled:
        options = Plain()

        def __call__(self, x: Any) -> Any:
            return x * self.options.factor

    Scaled.options.factor = 2.0
    return Scaled(), lambda new: setattr(Scaled.options, "factor", new)


def of_a_class() -> Case:
    class Options:
        factor = 2.0

    return lambda x: x * Options.factor, lambda new: setattr(Options, "factor", new)


def of_a_subclass() -> Case:
    class Base:
        factor = 2.0

    class Options(Base):
        pass

    box = Options()
    return lambda x: x * box.factor, lambda new: setattr(Options, "factor", new)


def of_a_descriptor() -> Case:
    class Constant:
        factor = 2.0

        def __get__(self, instance: Any, owner: Any = None) -> float:
            return self.factor

    class Options:
        factor = Constant()

    box, constant = Options(), vars(Options)["factor"]
    return lambda x: x * box.factor, lambda new: setattr(constant, "factor", new)


def of_a_method() -> Case:
    class Scaled:
        def scaled(self, x: Any) -> Any:
            return x * 2.0

    box = Scaled()
    return lambda x: box.scaled(x), lambda new: setattr(Scaled, "scaled", lambda self, x: x * new)


def of_forward() -> Case:
    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2.0

    module = Scaled()
    return lambda x: module(x), lambda new: setattr(Scaled, "forward", lambda self, x: x * new)


def of_code() -> Case:
    def scaled(x: Any, factor: float = 2.0) -> Any:
        return x * factor

    def change(new: float) -> None:
        text = f"def scaled(x, factor=2.0): return x * {new}"
        names: dict[str, Any] = {}
        exec(text, names)
        scaled.__code__ = names["scaled"].__code__

    return lambda x: scaled(x), change


def of_a_function() -> Case:
    def scaled(x: Any) -> Any:
        return x * scaled.factor  # type: ignore[attr-defined]

    vars(scaled)["factor"] = 2.0
    return lambda x: scaled(x), lambda new: setattr(scaled, "factor", new)


def of_a_cached_function() -> Case:
    factors = [2.0]

    @functools.lru_cache
    def factor() -> float:
        return factors[0]

    def change(new: float) -> None:
        factors[0] = new
        factor.cache_clear()

    return lambda x: x * factor(), change


def of_a_module() -> Case:
    module = settings
    module.factor = 2.0
    return lambda x: x * module.factor, lambda new: setattr(module, "factor", new)


def of_a_module_in_a_module() -> Case:
    settings.part.factor = 2.0
    return (
        lambda x: x * settings.part.factor,
        lambda new: setattr(settings.part, "factor", new),
    )


def of_an_order() -> Case:
    factors = {"a": 2.0, "b": 3.0}

    def change(new: float) -> None:
        factors["c"] = new
        for name in ("a", "b"):
            factors[name] = factors.pop(name)
        del factors["c"]
        factors["a"] = factors.pop("a")

    return lambda x: x * next(iter(factors.values())), change


def of_a_getter() -> Case:
    box, get = Plain(), operator.attrgetter("factor")
    box.factor = 2.0
    return lambda x: x * get(box), lambda new: setattr(box, "factor", new)


def of_a_pattern() -> Case:
    box = Plain()
    box.factor = 2.0

    def scaled(x: Any) -> Any:
        match box:
            case Plain(factor=factor):
                return x * factor

    return scaled, lambda new: setattr(box, "factor", new)


def of_an_array() -> Case:
    array = np.full(3, 2.0, np.float32)
    return lambda x: x * torch.from_numpy(array), lambda new: array.fill(new)


def of_an_element_of_an_array() -> Case:
    array = np.full(3, 2.0)
    return lambda x: x * float(array[0]), lambda new: array.fill(new)


CASES = {
    "SimpleNamespace": lambda: of_a_namespace(types.SimpleNamespace),
    "Namespace": lambda: of_a_namespace(argparse.Namespace),
    **{f.__name__: f for f in (
        of_a_list_in_a_class, of_an_object_in_a_class, of_a_class, of_a_subclass, of_a_descriptor,
        of_a_method, of_forward, of_code, of_a_function, of_a_cached_function, of_a_module,
        of_a_module_in_a_module, of_an_order, of_a_getter, of_a_pattern, of_an_array,
        of_an_element_of_an_array,
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_that_change_are_noticed(name: str) -> None:
    function, change = CASES[name]()
    compiled = torch.compile(function, fullgraph=True)
    x = torch.ones(3)
    for _ in range(3):
        assert compiled(x).tolist() == [2.0] * 3
    assert len(compiled.entries) == 1
    change(5.0)
    assert function(x).tolist() != [2.0] * 3
    for _ in range(2):
        assert compiled(x).tolist() == function(x).tolist()


def test_the_order_of_named_arguments() -> None:
    @torch.compile(fullgraph=True)
    def first(**named: Any) -> Any:
        return next(iter(named.values())) * 2

    for _ in range(2):
        assert first(a=torch.zeros(1), b=torch.ones(1)).item() == 0
        assert first(b=torch.ones(1), a=torch.zeros(1)).item() == 2


def of_the_environment() -> Case:
    os.environ["FACTOR_OF_A_TEST"] = "2"
    return (
        lambda x: x * float(os.environ["FACTOR_OF_A_TEST"]),
        lambda new: operator.setitem(os.environ, "FACTOR_OF_A_TEST", str(new)),
    )


def of_the_globals() -> Case:
    def scaled(x: Any) -> Any:
        return x * globals()["settings"].factor

    settings.factor = 2.0
    return scaled, lambda new: setattr(settings, "factor", new)


def of_a_variable_of_a_context() -> Case:
    variable = contextvars.ContextVar("factor", default=2.0)
    return lambda x: x * variable.get(), variable.set


def of_a_thread() -> Case:
    box = threading.local()
    box.factor = 2.0
    return lambda x: x * box.factor, lambda new: setattr(box, "factor", new)


def of_bytes() -> Case:
    numbers = bytearray([2])
    return lambda x: x * numbers[0], lambda new: operator.setitem(numbers, 0, int(new))


def of_a_view_of_a_dict() -> Case:
    box = {"a": 2.0}
    values = box.values()
    return lambda x: x * sum(values), lambda new: box.update(a=new)


def of_a_large_array() -> Case:
    array = np.full(200_000, 2.0)
    return lambda x: x * array[0], lambda new: array.fill(new)


HIDDEN = (of_the_environment, of_the_globals, of_a_variable_of_a_context, of_a_thread, of_bytes,
          of_a_view_of_a_dict, of_a_large_array)  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_functions_of_values_that_cannot_be_compared_stay_eager(case: Callable[[], Case]) -> None:
    function, change = case()
    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match="cannot be compiled: it (can see|can call|uses)"):
        assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    change(5.0)
    assert compiled(torch.ones(3)).tolist() == [5.0] * 3


def test_random_numbers_of_an_object() -> None:
    source = random.Random(0)
    compiled = torch.compile(lambda x: x * source.random())
    with pytest.warns(UserWarning, match="it can see source, a Random"):
        first = compiled(torch.ones(1)).item()
    assert compiled(torch.ones(1)).item() != first


def test_contents_of_users_dicts() -> None:
    box = collections.UserDict(factor=2.0)
    compiled = torch.compile(lambda x: x * box["factor"], fullgraph=True)
    for factor in (2.0, 2.0, 5.0):
        box["factor"] = factor
        assert compiled(torch.ones(1)).item() == factor
