"""The random numbers are PyTorch's own: the same bits from the same seed, in any mix of calls."""

from __future__ import annotations

import copy
import doctest
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd.arrays import _discrete, _generator, _random, _sampling

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32 + 5, 2**63, 2**64 - 1, -1, -(2**63)]
SHAPES = [(), (0,), (1,), (5,), (15,), (16,), (17,), (31,), (32,), (100,), (1000,), (3, 4), (7, 11)]
FLOATS = ["float16", "float32", "float64"]
SIGNED_AND_BYTE = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.fixture(scope="session")
def torch():
    module = pytest.importorskip("torch", reason="PyTorch is the reference of these tests")
    if module.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("PyTorch selects other kernels on a processor without AVX2")
    return module


def assert_same(ours, theirs):
    """Equal dtype, shape and bits, the sign of zero included."""
    expected = theirs.numpy()
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    assert ours.tobytes() == expected.tobytes()


def pair_of_generators(torch, seed):
    return _random.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)


# Each draw: what this module does and what PyTorch does, both from (generator, shape, dtype name).


def ours_uniform(generator, shape, dtype, low=0.0, high=1.0):
    return _random.uniform(shape, dtype, generator, low, high)


def theirs_uniform(torch, generator, shape, dtype, low=0.0, high=1.0):
    return torch.empty(shape, dtype=getattr(torch, dtype)).uniform_(low, high, generator=generator)


def ours_normal(generator, shape, dtype, mean=0.0, std=1.0):
    return _random.normal(shape, dtype, generator, mean, std)


def theirs_normal(torch, generator, shape, dtype, mean=0.0, std=1.0):
    return torch.empty(shape, dtype=getattr(torch, dtype)).normal_(mean, std, generator=generator)


def ours_integers(generator, shape, dtype, low=0, high=100):
    return _random.integers(low, high, shape, dtype, generator)


def theirs_integers(torch, generator, shape, dtype, low=0, high=100):
    kind = getattr(torch, dtype)
    if low is None:
        return torch.empty(shape, dtype=kind).random_(generator=generator)
    return torch.randint(low, high, shape, dtype=kind, generator=generator)


def ours_bernoulli(generator, shape, dtype, p=0.3):
    return _random.bernoulli(p, shape, dtype, generator)


def theirs_bernoulli(torch, generator, shape, dtype, p=0.3):
    p = torch.from_numpy(p) if isinstance(p, np.ndarray) else p
    return torch.empty(shape, dtype=getattr(torch, dtype)).bernoulli_(p, generator=generator)


def ours_exponential(generator, shape, dtype, rate=1.0):
    return _random.exponential(shape, dtype, generator, rate)


def theirs_exponential(torch, generator, shape, dtype, rate=1.0):
    return torch.empty(shape, dtype=getattr(torch, dtype)).exponential_(rate, generator=generator)


def ours_permutation(generator, shape, dtype):
    return _random.permutation(int(np.prod(shape)), dtype, generator)


def theirs_permutation(torch, generator, shape, dtype):
    return torch.randperm(int(np.prod(shape)), dtype=getattr(torch, dtype), generator=generator)


DRAWS = {
    "uniform": (ours_uniform, theirs_uniform),
    "normal": (ours_normal, theirs_normal),
    "integers": (ours_integers, theirs_integers),
    "bernoulli": (ours_bernoulli, theirs_bernoulli),
    "exponential": (ours_exponential, theirs_exponential),
    "permutation": (ours_permutation, theirs_permutation),
}


def check(torch, draw, seed, shape, dtype, *arguments):
    """The same numbers twice in a row, and the same state afterwards."""
    ours, theirs = DRAWS[draw]
    mine, reference = pair_of_generators(torch, seed)
    for _ in range(2):
        assert_same(
            ours(mine, shape, dtype, *arguments), theirs(torch, reference, shape, dtype, *arguments)
        )
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("draw", ["uniform", "normal"])
def test_uniform_and_normal(torch, draw, dtype, shape):
    for seed in SEEDS:
        check(torch, draw, seed, shape, dtype)
        check(torch, draw, seed, shape, dtype, -0.7, 1.3)
        check(torch, draw, seed, shape, dtype, 0.0, 2.5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-0.03571, 0.03571), (1.1, 3.3), (2.0, 2.0), (1000.0, 1000.5)])
def test_uniform_rounds_once_and_leaves_out_the_upper_bound(torch, dtype, bounds):
    check(torch, "uniform", 5, (50_000,), dtype, *bounds)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mean_std", [(0.0, 1.0), (0.3, 1.7), (-40.0, 1e-3), (5.0, 0.0)])
def test_many_normals(torch, dtype, mean_std):
    check(torch, "normal", 7, (300_003,), dtype, *mean_std)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_exponential(torch, dtype, shape):
    for seed in SEEDS:
        check(torch, "exponential", seed, shape, dtype)
        check(torch, "exponential", seed, shape, dtype, 0.3)
    check(torch, "exponential", 0, shape, dtype, float("inf"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_many_exponentials(torch, dtype):
    check(torch, "exponential", 7, (200_000,), dtype, 1.5)  # enough for float16 to round twice


@pytest.mark.parametrize("dtype", ["bool", *SIGNED_AND_BYTE, *FLOATS])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bernoulli(torch, dtype, shape):
    for seed in SEEDS:
        for p in (0, 0.3, 1):
            check(torch, "bernoulli", seed, shape, dtype, p)
        for kind in FLOATS:
            p = np.linspace(0.0, 1.0, int(np.prod(shape))).astype(kind).reshape(shape)
            check(torch, "bernoulli", seed, shape, dtype, p)
    check(torch, "bernoulli", 0, (4, *shape), dtype, np.full(shape, 0.5, np.float32))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int64", 0, 10),
        ("int64", -5, 2**28 - 6),  # the widest range of one word
        ("int64", -5, 2**28 - 5),  # the narrowest of two
        ("int64", 0, 2**32),
        ("int64", -(2**63), 2**63 - 1),
        ("int64", 2**62, 2**63 - 1),
        ("int32", -(2**31), 2**31),
        ("int32", 7, 8),
        ("int16", -300, 300),
        ("int8", -128, 128),
        ("uint8", 0, 256),
        ("uint16", 0, 2**16),
        ("uint32", 0, 2**32),
        ("uint64", 0, 2**63 - 1),
        ("bool", 0, 2),
        ("float16", -2048, 2049),
        ("float32", 0, 2**24),
        ("float64", -(2**53), 2**53),
    ],
)
def test_integers(torch, dtype, low, high):
    for seed in SEEDS:
        for shape in SHAPES:
            check(torch, "integers", seed, shape, dtype, low, high)


@pytest.mark.parametrize("dtype", ["bool", *SIGNED_AND_BYTE, *FLOATS])
def test_integers_without_bounds(torch, dtype):
    for seed in SEEDS:
        check(torch, "integers", seed, (33,), dtype, None, None)


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float16", 0, 65504),
        ("float16", -4099, 5001),
        ("float32", 2**24 + 1, 2**24 + 9),
        ("float32", -(2**40) - 1, 2**40 + 1),
        ("float32", -(2**63), 2**63 - 1),
        ("float64", -(2**60) - 1, 2**60 + 1),
        ("float64", 0, 2**63 - 1),
    ],
)
def test_integers_with_bounds_the_dtype_cannot_hold(torch, dtype, low, high):
    check(torch, "integers", 3, (1000,), dtype, low, high)


def test_integers_of_all_64_bits(torch):
    mine, reference = pair_of_generators(torch, 9)
    ours = _random.integers(-(2**63), 2**63, 50, np.int64, mine)
    assert_same(
        ours, torch.empty(50, dtype=torch.int64).random_(-(2**63), None, generator=reference)
    )


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", *FLOATS])
def test_permutation(torch, dtype):
    for seed in SEEDS:
        for n in (0, 1, 2, 3, 16, 100):
            check(torch, "permutation", seed, (n,), dtype)
    if dtype in ("int32", "int64"):
        check(torch, "permutation", 11, (100_000,), dtype)


# ---- any mix of calls ---------------------------------------------------------------------------

calls = st.one_of(
    st.tuples(
        st.sampled_from(["uniform", "normal"]),
        st.sampled_from([*FLOATS, "complex64", "complex128"]),
        st.integers(0, 40),
        st.sampled_from([(), (-0.7, 1.3), (0.0, 3.0)]),
    ),
    st.tuples(
        st.just("integers"),
        st.sampled_from(["int32", "int64", "float64"]),
        st.integers(0, 40),
        st.tuples(st.integers(-1000, 0), st.integers(1, 2**31)),
    ),
    st.tuples(
        st.just("bernoulli"),
        st.sampled_from(["bool", *FLOATS]),
        st.integers(0, 40),
        st.sampled_from([(0.3,), (np.float32([0.7]),), (np.float64([0.7]),)]),
    ),
    st.tuples(st.just("exponential"), st.sampled_from(FLOATS), st.integers(0, 40), st.just(())),
    st.tuples(st.just("permutation"), st.just("int64"), st.integers(0, 40), st.just(())),
)


# Draws of ``Tensor.name_(*arguments)``.
FILLS = {
    "cauchy": [(), (1.7, 2.3)],
    "log_normal": [(), (0.5, 0.25), (3.0, 200.0)],
    "geometric": [(0.5,), (0.03,), (0.9999,)],
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("draw", "arguments"), [(d, a) for d in FILLS for a in FILLS[d]])
def test_more_distributions(torch, draw, arguments, dtype):
    mine, reference = pair_of_generators(torch, 5)
    for count in (0, 1, 17, 5000):
        theirs = getattr(torch.empty(count, dtype=getattr(torch, dtype)), f"{draw}_")
        ours = getattr(_random, draw)(count, dtype, mine, *arguments)
        assert_same(ours, theirs(*arguments, generator=reference))
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("most", [0.5, 9.9, 60.0, 1e4])
def test_poisson(torch, dtype, most):
    rates = (np.linspace(0, most, 700)).astype(dtype)
    mine, reference = pair_of_generators(torch, 5)
    for _ in range(2):
        ours = _random.poisson(rates, mine)
        assert_same(ours, torch.poisson(torch.from_numpy(rates), generator=reference))
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1.0, 30.0, 5000.0])
def test_binomial(torch, dtype, count):
    chances = np.linspace(0, 1, 700).astype(dtype)
    counts = np.full(700, count, dtype)
    mine, reference = pair_of_generators(torch, 5)
    given = torch.from_numpy(counts), torch.from_numpy(chances)
    assert_same(
        _random.binomial(counts, chances, mine), torch.binomial(*given, generator=reference)
    )
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 60])
def test_multinomial(torch, dtype, replacement, count):
    weights = np.random.default_rng(0).random((5, 60)).astype(dtype)
    mine, reference = pair_of_generators(torch, 5)
    for rows in (weights, weights[0]):
        theirs = torch.from_numpy(rows)
        assert_same(
            _random.multinomial(rows, count, replacement, mine),
            torch.multinomial(theirs, count, replacement, generator=reference),
        )
    assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("draw", ["uniform_", "normal_", "bernoulli_", "exponential_"])
def test_memory_is_filled_in_its_own_order(torch, draw):
    import retrograd

    for library in (torch, retrograd):
        library.manual_seed(8)
    theirs, ours = (
        getattr(library.empty(3, 8, 5).permute(2, 0, 1), draw)() for library in (torch, retrograd)
    )
    assert np.array_equal(ours.numpy(), theirs.numpy())


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(-(2**63), 2**64 - 1), sequence=st.lists(calls, max_size=12))
def test_calls_in_any_order_use_the_stream_alike(torch, seed, sequence):
    mine, reference = pair_of_generators(torch, seed)
    for draw, dtype, count, arguments in sequence:
        ours, theirs = DRAWS[draw]
        assert_same(
            ours(mine, (count,), dtype, *arguments),
            theirs(torch, reference, (count,), dtype, *arguments),
        )
        assert mine.get_state().tobytes() == reference.get_state().numpy().tobytes()


@pytest.mark.parametrize("n", [0, 1, 2, 999, 4999, 5000, 40_000])
def test_orders_are_pytorchs_at_any_length(torch, n):
    mine = _random.permutation(n, np.int64, _random.manual_seed(n))
    assert_same(mine, torch.randperm(n, generator=torch.Generator().manual_seed(n)))
    assert sorted(mine.tolist()) == list(range(n))


def test_the_default_generator_is_the_one_that_functions_use(torch):
    _random.manual_seed(123)
    torch.manual_seed(123)
    assert_same(_random.uniform(3, np.float32), torch.rand(3))
    assert_same(_random.normal(3, np.float32), torch.randn(3))
    assert_same(_random.normal((4, 5), np.float32), torch.randn(4, 5))
    assert_same(_random.normal(3, np.complex64), torch.randn(3, dtype=torch.complex64))
    assert_same(_random.integers(0, 10, 4, np.int64), torch.randint(10, (4,)))
    assert_same(_random.permutation(10, np.int64), torch.randperm(10))
    p = np.float32([0.2, 0.8])
    assert_same(_random.bernoulli(p, 2, np.float32), torch.bernoulli(torch.from_numpy(p)))
    assert _random.initial_seed() == torch.initial_seed()
    assert _random.get_rng_state().tobytes() == torch.get_rng_state().numpy().tobytes()


# ---- state --------------------------------------------------------------------------------------


def some_draws(generator):
    return [
        _random.normal(3, np.float32, generator),  # leaves a second value waiting
        _random.uniform(700, np.float64, generator),  # goes over the end of a block of words
        _random.normal(3, np.float64, generator),
        _random.integers(0, 7, 5, np.int64, generator),
    ]


def assert_all_equal(left, right):
    assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("drawn", [0, 1, 3, 623, 624, 625, 2000])
def test_a_saved_state_brings_the_stream_back(drawn):
    generator = _random.Generator().manual_seed(5)
    generator.words(drawn)
    _random.normal(1, np.float32, generator)
    state = generator.get_state()
    assert (state.dtype, state.shape) == (np.dtype(np.uint8), (5056,))
    first = some_draws(generator)
    assert generator.set_state(state) is generator
    assert generator.get_state().tobytes() == state.tobytes()
    assert_all_equal(first, some_draws(generator))
    other = _random.Generator().set_state(state)
    assert other.initial_seed() == 5
    assert_all_equal(first, some_draws(other))


@pytest.mark.parametrize(
    "duplicate",
    [
        _random.Generator.clone_state,
        copy.deepcopy,
        lambda generator: pickle.loads(pickle.dumps(generator)),
    ],
    ids=["clone_state", "deepcopy", "pickle"],
)
def test_a_copy_goes_on_alike_and_apart(duplicate):
    generator = _random.Generator().manual_seed(5)
    _random.normal(3, np.float32, generator)
    twin = duplicate(generator)
    first = some_draws(twin)
    assert_all_equal(first, some_draws(generator))


def test_states_pass_between_the_two_libraries(torch):
    mine, reference = pair_of_generators(torch, 8)
    torch.randn(5, generator=reference)
    mine.set_state(reference.get_state().numpy())
    assert_same(_random.normal(5, "float32", mine), torch.randn(5, generator=reference))
    _random.normal(2, "float32", mine)
    reference.set_state(torch.from_numpy(mine.get_state()))
    assert_same(_random.normal(5, "float32", mine), torch.randn(5, generator=reference))


def test_module_level_state_and_seeds():
    state = _random.get_rng_state()
    first = _random.uniform(4, np.float32)
    assert _random.set_rng_state(state) is None
    assert_all_equal([first], [_random.uniform(4, np.float32)])
    fresh = _random.seed()
    assert 0 <= fresh < 2**53
    assert fresh == _random.initial_seed() != _random.seed()
    assert _random.manual_seed("7") is _random.default_generator
    assert _random.initial_seed() == 7


def test_only_32_bits_of_the_seed_count():
    def numbers(seed):
        return _random.uniform(5, np.float32, _random.Generator().manual_seed(seed)).tolist()

    assert numbers(3) == numbers(2**32 + 3) == numbers(3 - 2**32)
    assert _random.Generator().manual_seed(3 - 2**32).initial_seed() == 2**64 - 2**32 + 3


def test_a_new_generator(torch):
    assert _random.Generator().initial_seed() == torch.Generator().initial_seed()
    assert _random.Generator().device == _random.Generator(device=None).device == "cpu"
    with pytest.raises(RuntimeError, match="Device type cuda"):
        _random.Generator("cuda:0")


# ---- threads ------------------------------------------------------------------------------------


def drawn_by_threads(draw, threads=8, draws=50):
    generator = _random.Generator().manual_seed(1)
    results = []

    def work():
        for _ in range(draws):
            results.append(draw(generator))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    generator.manual_seed(1)
    return results, [draw(generator) for _ in range(threads * draws)]


def test_threads_share_a_stream_without_mixing_a_draw():
    shared, alone = drawn_by_threads(lambda g: _random.uniform(100, np.float64, g))
    assert sorted(x.tobytes() for x in shared) == sorted(x.tobytes() for x in alone)


def test_threads_share_the_waiting_normal():
    shared, alone = drawn_by_threads(lambda g: _random.normal(3, np.float64, g))
    assert sorted(x.tobytes() for x in shared) == sorted(x.tobytes() for x in alone)


# ---- errors -------------------------------------------------------------------------------------


def failure(function):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
        function()
    return type(caught.value), str(caught.value)


BAD_SEEDS = [2**64, -(2**63) - 1, 1.5, "x", None, True]


@pytest.mark.parametrize("seed", BAD_SEEDS)
def test_bad_seeds_of_a_generator(torch, seed):
    mine, reference = _random.Generator(), torch.Generator()
    ours = failure(lambda: mine.manual_seed(seed))
    assert ours == failure(lambda: reference.manual_seed(seed))


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, "x", None])
def test_bad_seeds_of_the_default_generator(torch, seed):
    ours = failure(lambda: _random.manual_seed(seed))
    assert ours == failure(lambda: torch.manual_seed(seed))


@pytest.mark.parametrize(
    "state", [np.zeros(5056, np.uint8), np.zeros(5, np.uint8), np.zeros(5056, np.float32)], ids=str
)
def test_bad_states(torch, state):
    ours = failure(lambda: _random.Generator().set_state(state))
    assert ours == failure(lambda: torch.Generator().set_state(torch.from_numpy(state)))


def test_a_state_that_is_no_array(torch):
    ours = failure(lambda: _random.set_rng_state(3))
    assert ours == failure(lambda: torch.set_rng_state(3))


@pytest.mark.parametrize(
    ("draw", "dtype", "arguments"),
    [
        ("uniform", "float32", (2.0, 1.0)),
        ("uniform", "float32", (0.0, 1e39)),
        ("uniform", "float32", (float("nan"), 1.0)),
        ("uniform", "float64", (0.0, float("inf"))),
        ("uniform", "float16", (-65000.0, 65000.0)),
        ("uniform", "float32", (-3e38, 3e38)),
        ("uniform", "complex64", (2.0, 1.0)),
        ("uniform", "int64", ()),
        ("uniform", "bool", ()),
        ("normal", "float32", (0.0, -0.123456789)),
        ("normal", "float32", (0.0, float("nan"))),
        ("normal", "int64", ()),
        ("integers", "int64", (5, 5)),
        ("integers", "uint8", (0, 300)),
        ("integers", "uint8", (-1, 3)),
        ("integers", "bool", (0, 3)),
        ("integers", "int32", (0, 2**40)),
        ("integers", "int16", (-(2**20), 0)),
        ("integers", "uint64", (-1, 3)),
        ("integers", "float16", (-70000, 3)),
        ("integers", "float16", (0, 70000)),
        ("integers", "complex64", (0, 3)),
        ("integers", "complex64", (None, None)),
        ("integers", "uint16", (None, None)),
        ("bernoulli", "float32", (2.0,)),
        ("bernoulli", "float32", (float("nan"),)),
        ("bernoulli", "complex64", (0.5,)),
        ("bernoulli", "complex64", (np.float32([0.5]),)),
        ("bernoulli", "float32", (np.float32([1.5]),)),
        ("bernoulli", "float32", (np.float64([float("nan")]),)),
        ("bernoulli", "float32", (np.array([1]),)),
        ("exponential", "float32", (-1.0,)),
        ("exponential", "float32", (float("nan"),)),
        ("exponential", "int64", ()),
        ("exponential", "complex64", ()),
        ("permutation", "bool", ()),
        ("permutation", "complex64", ()),
        ("permutation", "uint16", ()),
    ],
)
def test_bad_arguments(torch, draw, dtype, arguments):
    ours, theirs = DRAWS[draw]
    mine, reference = pair_of_generators(torch, 0)
    expected = failure(lambda: theirs(torch, reference, (3,), dtype, *arguments))
    assert failure(lambda: ours(mine, (3,), dtype, *arguments)) == expected


@pytest.mark.parametrize(
    ("n", "dtype"),
    [(-1, "int64"), (257, "uint8"), (129, "int8"), (40000, "int16"), (2050, "float16")],
)
def test_permutations_the_dtype_cannot_hold(torch, n, dtype):
    expected = failure(lambda: torch.randperm(n, dtype=getattr(torch, dtype)))
    assert failure(lambda: _random.permutation(n, dtype)) == expected


def test_a_permutation_too_long_to_be_like_torch_is_refused():
    with pytest.raises(NotImplementedError, match="214748364"):
        _random.permutation(214748364, np.int64)


# ---- rounding once ------------------------------------------------------------------------------

singles = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
doubles = st.floats(-1e9, 1e9, allow_subnormal=False)


def nearest_float32(exact):
    """The float32 nearest to a fraction; of two equally near, the one whose last bit is 0."""
    guess = np.float32(float(exact))
    around = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.int32)) & 1))


@given(singles, singles, singles)
def test_float32_multiply_and_add_rounds_once(value, scale, shift):
    exact = Fraction(value) * Fraction(scale) + Fraction(shift)
    ours = _sampling.scale_and_shift(np.float32([value]), scale, shift)[0]
    assert ours == nearest_float32(exact)


@given(doubles, doubles, doubles)
def test_float64_multiply_and_add_rounds_once(value, scale, shift):
    exact = Fraction(value) * Fraction(scale) + Fraction(shift)
    product = abs(Fraction(value) * Fraction(scale))
    if product == 0 or product > Fraction(2.0**-900):  # where its lost part is no subnormal
        ours = _sampling.scale_and_shift(np.float64([value]), scale, shift)[0]
        assert ours == float(exact)


@pytest.mark.parametrize(("shift", "last_bit"), [(2.0**-60, 1), (-(2.0**-60), 0)])
def test_float32_is_not_rounded_twice(shift, last_bit):
    side = 1.0 + 2.0**-12  # its square is halfway between two float32 numbers
    ours = _sampling.scale_and_shift(np.float32([side]), side, shift)[0]
    assert ours == 1.0 + 2.0**-11 + last_bit * 2.0**-23


def test_a_huge_scale_does_not_overflow():
    values = np.float64([0.1, 0.3, 0.9])
    ours = _sampling.scale_and_shift(values, 1.7e308, 1.0)
    assert np.array_equal(ours, values * 1.7e308)


# ---- values read off PyTorch 2.13 ---------------------------------------------------------------


def seeded(seed=0):
    return _random.Generator().manual_seed(seed)


def test_golden_values():
    assert _random.uniform(3, "float32", seeded()).tolist() == [
        0.49625658988952637,
        0.7682217955589294,
        0.08847743272781372,
    ]
    assert _random.uniform(2, "float64", seeded()).tolist() == [
        0.9700530018065531,
        0.707819864399788,
    ]
    assert _random.uniform(3, "float16", seeded()).tolist() == [
        0.496337890625,
        0.76806640625,
        0.0885009765625,
    ]
    assert _random.uniform(1, "complex64", seeded()).tolist() == [
        (0.49625658988952637 + 0.7682217955589294j)
    ]
    assert _random.uniform(2, "float32", seeded(), -0.1, 0.2).tolist() == [
        0.04887698218226433,
        0.1304665505886078,
    ]
    assert _random.normal(3, "float32", seeded()).tolist() == [
        1.5409960746765137,
        -0.293428897857666,
        -2.1787893772125244,
    ]
    assert _random.normal(2, "float64", seeded(), 1.0, 3.0).tolist() == [
        5.62298832473213,
        0.11971328271716086,
    ]
    assert _random.normal(16, "float32", seeded())[:4].tolist() == [
        -1.1258398294448853,
        -1.152360200881958,
        -0.2505785822868347,
        -0.4338788092136383,
    ]
    assert _random.normal(17, "float64", seeded())[:4].tolist() == [
        -2.310411800234176,
        -0.6332746088675096,
        -1.2609246557194385,
        -0.726951062065411,
    ]
    assert _random.normal(1, "complex64", seeded()).tolist() == [
        (1.0896488428115845 - 0.20748557150363922j)
    ]
    assert _random.integers(0, 100, 6, "int64", seeded()).tolist() == [44, 39, 33, 60, 63, 79]
    assert _random.integers(0, 2**40, 2, "int64", seeded()).tolist() == [741280623151, 506137267392]
    assert _random.permutation(8, "int64", seeded()).tolist() == [4, 0, 7, 3, 2, 5, 1, 6]
    assert _random.bernoulli(0.5, 8, "int64", seeded()).tolist() == [0, 0, 1, 0, 0, 0, 1, 1]
    assert _random.bernoulli(np.float32([0.5]), 8, "int64", seeded()).tolist() == [
        1,
        0,
        1,
        1,
        1,
        0,
        1,
        0,
    ]
    assert _random.exponential(2, "float32", seeded()).tolist() == [
        3.508326292037964,
        1.2303847074508667,
    ]


def test_examples_in_the_documentation():
    for module, least in ((_generator, 8), (_random, 6), (_discrete, 3)):
        results = doctest.testmod(module, extraglobs={"torch": retrograd})
        assert results.attempted >= least
        assert results.failed == 0
