"""Linear algebra, Fourier transforms, special functions."""

import retrograd as torch
from retrograd import Tensor, fft, linalg, special


def algebra(a: Tensor) -> Tensor:
    q, r = linalg.qr(a)
    u, s, vh = linalg.svd(a, full_matrices=False)
    spectrum = linalg.eigh(a @ a.mT)
    sign, logabsdet = linalg.slogdet(a)
    lower = linalg.cholesky(a @ a.mT + torch.eye(3))
    solved = linalg.solve(a, torch.ones(3))
    fitted = linalg.lstsq(a, torch.ones(3, 1)).solution
    norms = linalg.norm(a) + linalg.vector_norm(a, ord=1, dim=0) + linalg.matrix_norm(a, "fro")
    rank: Tensor = linalg.matrix_rank(a)
    total = (q @ r).sum() + (u * s) @ vh + spectrum.eigenvalues + sign * logabsdet + lower
    total = total + solved + fitted.sum() + norms + rank + linalg.inv(a)
    return total + torch.det(a) + linalg.pinv(a)


def signals(x: Tensor) -> Tensor:
    half = fft.rfft(x, n=8, dim=-1, norm="ortho")
    back = fft.irfft(half, n=8)
    image = fft.fft2(torch.ones(4, 4), s=(4, 4), dim=(-2, -1)).abs()
    frequencies = fft.fftfreq(8, d=0.5)
    frames = torch.stft(x, n_fft=4, window=torch.hann_window(4), return_complex=True)
    return back.sum() + image.sum() + frequencies.sum() + fft.fftshift(frames.abs(), dim=0).sum()


def functions(x: Tensor) -> Tensor:
    y = special.erf(x) + special.gammaln(x) + special.expit(x) + special.xlogy(x, 2.0)
    y = y + special.logsumexp(x, dim=0) + special.polygamma(1, x) + special.zeta(x + 2, 1.5)
    return y + torch.sigmoid(x) + torch.lgamma(x) + special.hermite_polynomial_h(x, 2)


def main() -> None:
    a = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    x = torch.linspace(0.1, 1.0, 8)
    try:
        linalg.inv(torch.zeros(2, 2))
    except linalg.LinAlgError as error:
        print(error)
    print(algebra(a).shape, signals(x), functions(x).shape)


if __name__ == "__main__":
    main()
