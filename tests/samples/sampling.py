"""Calls that draw random numbers. Each begins with a seed: the numbers are PyTorch's own."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "rchance": draw((2, 3), 0.1, 0.9, 601).real, "rchances": draw((5, 8), 0.1, 0.9, 602).real,
    "rtran": draw((6, 4), 0.1, 0.9, 603).real.T, "rone": draw((), 0.1, 0.9, 604).real,
    "rrates": draw((4, 6), 0.1, 30, 605).real, "rcounts": np.floor(draw((4, 6), 0, 90, 606).real),
}  # fmt: skip
FIXED = {
    "rweights": draw((3, 7), 0, 1, 607).real, "rweight": np.array([0.0, 2.0, 1.0, 0.5]),
    "rweights32": draw((3, 7), 0, 1, 607).real.astype(np.float32), "rbad": np.array([0.5, 1.5]),
    "rhalf": np.linspace(0, 1, 5).astype(np.float16), "rchances32": np.float32([0.2, 0.5, 0.9]),
    "rnegative": np.array([1.0, -1.0]), "rinf": np.array([1.0, INF := float("inf")]),
    "rnone": np.zeros((2, 0)), "rlong": draw((50,), 0, 9, 608).real, "rcomplex": np.ones(3) * 1j,
}  # fmt: skip


def seeded(expressions: list[str]) -> list[str]:
    return [f"[torch.manual_seed(7), {e}][1]" for e in expressions]


_FILLED = """
    uniform_(); uniform_(1, 2); uniform_(-1.5, 2.5); uniform_(to=3); normal_(); normal_(1, 2)
    normal_(mean=1, std=0); exponential_(); exponential_(2.5); cauchy_(); cauchy_(1, 2.5)
    log_normal_(); log_normal_(0.5, 0.25); geometric_(0.3); random_(); random_(5); random_(2, 5)
    random_(to=9); bernoulli_(); bernoulli_(0.3); bernoulli_(p=0.9)
    uniform_(generator=torch.Generator().manual_seed(3))
    normal_(generator=torch.Generator().manual_seed(3))
""".replace("\n", ";").strip("; ")
FILLED = seeded([
    *every("{x}.clone().{fill}", x="mat; sc; cube; rchances; none", fill=_FILLED),
    *every("torch.empty({x}.{fill}",
           x="3, 7, 5).transpose(0, 2); 40, dtype=torch.float64); 4, 20)[:, ::2]; "
             "21, dtype=torch.float16)", fill=_FILLED),
    *every("torch.empty(9, dtype={d}).{fill}",
           d="torch.int64; torch.int32; torch.uint8; torch.bool; torch.int8",
           fill="random_(); bernoulli_(); bernoulli_(0.3)"),
    *every("torch.empty(9, dtype={d}).{fill}", d="torch.int64; torch.int32; torch.uint8",
           fill="random_(5); random_(2, 5); geometric_(0.3)"),
    *calls("""
        mat.clone().bernoulli_(?) <- rchance; rchance[0]; rchances32; rone
        rtran.clone().bernoulli_(rtran); torch.zeros(2, 3).bernoulli_(rchance)
        written(mat.clone(), lambda m: m[0], 'uniform_')
        written(mat * 1, lambda m: m.t(), 'normal_')
        (mat * 2).uniform_() * mat; (mat * 3).normal_().sum() + mat.sum()
    """),
])  # fmt: skip
DRAWN = seeded([
    *calls("""
        torch.bernoulli(?) <- rchance; rchances; rtran; rone; rhalf; rchances32; none.real
        torch.bernoulli(rchance, 0.3)
        torch.bernoulli(?) <- rchances, p=0.5; rtran, 0.5; rchance, generator=torch.Generator()
        rchance.bernoulli(); rchance.bernoulli(0.25)
        torch.poisson(?) <- rchance; rrates; rtran; none; rone; rlong; rrates * 1000; rhalf
        torch.poisson(rrates, generator=torch.Generator().manual_seed(5))
        torch.normal(?) <- rchance.real, 1.0; 0.0, rchance.real; rchance.real, std=2.5; rchance.real
        torch.normal(?) <- rchance.real, rchances.real[:2, :3]; rchance.real, rchance.real[0]
        torch.normal(?) <- 1.0, 2.0, (2, 3); 1.0, 2.0, size=(40,); rtran.real, 0.5; rchances32, iv
        torch.normal(?) <- rchance.real[:, :1], rchance.real[:1]; rchances.real, rone.real
        torch.normal(?) <- mat.real, rchance.real; mean=rchance.real, std=rchance.real
        torch.normal(?) <- 0.0, 1.0, (3,), dtype=torch.float64; 0.0, 1.0, (2,), requires_grad=True
        torch.normal(?) <- 2.0, rchances.real; rchances.real, 0.0; rlong, rlong, out=torch.zeros(1)
        torch.normal(rchances.real, 1.0, generator=torch.Generator().manual_seed(4))
        torch.normal(0.0, 1.0, (20,), out=torch.zeros(3))
        torch.multinomial(?) <- rweights, 2; rweights, 7; rweights, 9, True; rweight, 1; rweight, 3
        torch.multinomial(?) <- rweights32, 5; rweights32, 40, True; rweight, 20, replacement=True
        torch.multinomial(?) <- rweights, 1, True; rlong, 10; rweights, num_samples=2; rchance, 2
        torch.multinomial(?) <- rlong, 30, True; rweights, 2, generator=torch.Generator()
        torch.multinomial(none, 2); rweights.multinomial(3); rweights32.multinomial(3, True)
        torch.binomial(?) <- rcounts, rweights[:1, :6].expand(4, 6); rcounts, rcounts / 90
        torch.rand(?) <- 3; 2, 3; (2, 3); 20, dtype=torch.float64; (); 0; 3, requires_grad=True
        torch.rand(?) <- 2, dtype=torch.complex64; size=(2,); 4, generator=torch.Generator()
        torch.randn(?) <- 3; 2, 3; 40; 33, dtype=torch.float64; (); 17, dtype=torch.float16
        torch.randn(?) <- 20, dtype=torch.complex64; 20, out=torch.zeros(1)
        torch.randint(?) <- 5, (3,); 2, 9, (2, 3); low=0, high=5, size=(2,); 5, size=(4,)
        torch.randint(?) <- 2**40, (3,); 5, (3,), dtype=torch.float32, requires_grad=True
        torch.randint(?) <- 5, (3,), out=torch.zeros(1, dtype=torch.int64)
        torch.randperm(?) <- 9; 0; 1; 9, dtype=torch.float32; 30, generator=torch.Generator()
        torch.randperm(9, out=torch.zeros(1, dtype=torch.int64))
        torch.rand_like(?) <- mat; rtran; i, dtype=torch.float32; sc; cube
        torch.rand_like(rtran, requires_grad=True)
        torch.randn_like(?) <- mat; rtran; rchances; i, dtype=torch.float64; btran
        torch.randn_like(rtran, memory_format=torch.contiguous_format)
        torch.randint_like(?) <- mat, 5; i, 2, 9; rtran, 100; rchances, 3, dtype=torch.int32
        torch.rand(4) + torch.rand(4, dtype=torch.float64); torch.randn(3) * torch.randn(3)
    """),
])  # fmt: skip
GROUPS = {"filled": FILLED, "drawn": DRAWN}
ERRORS = calls("""
    mat.uniform_(); mat.normal_(); mat.clone().expand(4, 2, 3).uniform_(); i.uniform_(); i.normal_()
    i.exponential_(); i.cauchy_(); i.log_normal_(); k.geometric_(0.5); rcomplex.exponential_()
    rcomplex.cauchy_(); rcomplex.geometric_(0.5); rcomplex.random_(); rcomplex.bernoulli_()
    rcomplex.log_normal_(); torch.binomial(rcomplex, rcomplex)
    f32.geometric_(?) <- 0; 1; 1.5
    f32.cauchy_(0, ?) <- 0; -1
    f32.log_normal_(0, ?) <- 0; -1
    f32.exponential_(?) <- 0; -2
    f32.normal_(0, -1); f32.uniform_(2, 1); f32.random_(0); f32.random_(3, 2); u8.random_(300)
    f32.bernoulli_(2); torch.bernoulli(i); torch.bernoulli(rbad); torch.bernoulli(rcomplex)
    torch.bernoulli(kv); torch.bernoulli(rchance, 2.0); torch.poisson(rnegative); torch.poisson(i)
    torch.poisson(rcomplex); torch.normal(f64, -1.0); torch.normal(f64, rnegative[1:])
    torch.normal(iv, 1.0); torch.normal(0.0, iv); torch.normal(f64, rchances)
    mat.clone().bernoulli_(rchances[:, :3]); torch.zeros(3).bernoulli_(rbad)
    torch.multinomial(?) <- rweight, 5; rweight, 0; rnegative, 1; cube, 2; i, 2; rinf, 1
    torch.multinomial(rinf, 3, True)
    torch.multinomial(?) <- rweight * 0, 1; rweight * 0, 2, True; rnegative, 2, True; rnone, 1
    torch.multinomial(sc, 1)
    torch.binomial(?) <- i, rweights[:2, :3]; f32, f64; f64, iv
    mat.clone().?(generator=3) <- uniform_; normal_; exponential_; cauchy_; log_normal_
    torch.multinomial(rweight, 1, generator=3); mat.clone().bernoulli_(cube)
    torch.normal((c64 * 1).requires_grad_(), 1.0)
""")
OTHER_GRAPH = {r"binomial\(rcounts, rweights": "PyTorch leaves out an edge that leads nowhere"}
ROUGH = {"": "random numbers, which differ with every draw"}
NO_SLOPE = dict.fromkeys(
    (
        "uniform_over", "exponential_over", "cauchy_over", "log_normal_over", "geometric_over",
        "integers_over", "integers_below_over", "integers_between_over", "bernoulli_number_over",
        "normal_over", "bernoulli_of", "bernoulli_over", "bernoulli_like", "normal_of_mean",
        "normal_of_std", "normal_of_both", "poisson_of", "binomial_of",
    ), "random numbers have no slope",
)  # fmt: skip
