"""Calls of Fourier transforms, spectrograms and windows."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

SMOOTH = {
    "fsignal": draw((20,), -2, 2, 501), "fsignals": draw((2, 20), -2, 2, 502),
    "fwin": draw((8,), 0.5, 1.5, 503), "fwin6": draw((6,), 0.5, 1.5, 504),
    "fspec": draw((5, 11), -2, 2, 505), "fspecs": draw((2, 5, 11), -2, 2, 506),
    "ffull": draw((8, 6), -2, 2, 507), "fodd": draw((5,), -2, 2, 508),
    "fgrid": draw((2, 3, 4), -2, 2, 509),
}  # fmt: skip
FIXED = {
    "fhann": np.hanning(9)[:8], "fhann32": np.hanning(9)[:8].astype(np.float32),
    "fhann6": np.hanning(8)[1:7], "fcomplex": np.exp(1j * np.arange(8)),
    "fcspec": np.exp(1j * np.arange(55).reshape(5, 11)), "fzero": np.zeros(8),
    "fisignal": np.arange(20), "fspec32": np.exp(1j * np.arange(55)).reshape(5, 11).astype("c8"),
}  # fmt: skip

_ONE = """
    vec; vec, n=2; vec, n=5; mat, dim=0; vec, norm='ortho'; vec, norm='forward'; fodd
    vec, norm='backward'; mat, n=3, dim=0; tran, dim=1; step; cube, 4, 1, 'ortho'; iv; kv; u8; f32
    c64; i, dim=0; inf; nan; vec, None, 0, None; sc; empty; none, dim=0; mat, n=1
""".replace("\n", ";").strip("; ")
_MANY = """
    mat; mat, s=(3, 2); fgrid, dim=(0, 2); mat, norm='ortho'; mat, norm='forward'
    fgrid, s=(3,), dim=(0,); mat, s=(-1, 2); mat, s=(2, -1); mat, (3, 3), (0, 1), 'ortho'; tran; i
    fgrid, s=(5, 3), dim=(2, 0); k; f32; c64; mat, dim=-1; mat, s=3, dim=0; btran; four
    fgrid, (3, 2), (-1, 0), 'backward'; sc; none; mat, dim=(); mat, s=(1, 1)
""".replace("\n", ";").strip("; ")
TRANSFORMS = [
    *every("torch.fft.{name}({args})", name="fft; ifft; rfft; irfft; hfft; ihfft", args=_ONE),
    *every("torch.fft.{name}({args})",
           name="fftn; ifftn; rfftn; irfftn; hfftn; ihfftn", args=_MANY),
    *every("torch.fft.{name}({args})", name="fft2; ifft2; rfft2; irfft2; hfft2; ihfft2",
           args="mat; fgrid; mat, s=(3, 4); fgrid, dim=(0, 1); mat, norm='ortho'; tran; i"),
    *calls("""
        torch.fft.rfft(fodd.real).abs().pow(2); torch.fft.fft(vec).real; torch.fft.fft(vec).abs()
        torch.fft.ifft(torch.fft.fft(vec) * torch.fft.fft(fodd[:3])).real; torch.fft.fftn(fgrid)
        torch.fft.irfft(torch.fft.rfft(vec.real, n=6) * torch.fft.rfft(fodd.real, n=6), n=6)
        torch.fft.irfftn(fgrid, s=(2, 3, 5)); torch.fft.irfftn(fgrid, s=(2, 3, 6))
        torch.fft.rfftn(fgrid.real, s=(2, 3, 5)); torch.fft.rfftn(fgrid.real)
        torch.fft.fft(vec * 1j); torch.fft.fft(input=vec, dim=0)
        torch.fft.fft(f64, out=torch.zeros(3, dtype=torch.complex128))
    """),
]  # fmt: skip
ORDER = [
    *every("torch.fft.{name}({args})", name="fftshift; ifftshift",
           args="vec; mat; fodd; mat, dim=0; mat, dim=(1, 0); fgrid, dim=(-1,); i; empty; none"),
    *calls("""
        torch.fft.fftfreq(?) <- 4; 5; 5, 0.1; 4, d=2.0; 0; 1; 3, dtype=torch.float64; 4, 0
        torch.fft.fftfreq(?) <- 4, dtype=torch.float16; 4, requires_grad=True
        torch.fft.rfftfreq(?) <- 4; 5; -3; 5, 0.1; 4, d=2.0; 0; 1; 3, dtype=torch.float64
    """),
]  # fmt: skip
_NAMES = "hann_window; hamming_window; blackman_window; bartlett_window; kaiser_window"
WINDOWS = [
    *every("torch.{name}({args})", name=_NAMES,
           args="5; 6; 0; 1; 2; 2, False; 7, False; 5, periodic=False, dtype=torch.float64; "
                "8, dtype=torch.float64; 5, requires_grad=True; window_length=4, periodic=True"),
    *calls("""
        torch.hamming_window(?) <- 5, True, 0.6; 5, True, 0.6, 0.3; 5, False, 0.6, 0.3
        torch.kaiser_window(?) <- 5, True, 3.0; 5, False, beta=3.0; 9, False, 8.6
    """),
]  # fmt: skip
STFT = [
    *every("torch.stft({args}, return_complex=True)",
           args="fsignal, 8; fsignals, 8; fsignal, 8, 2, window=fwin; fsignal, 8, 3, 6, fwin6; "
                "fsignal, 8, 2, 6; fsignal, 8, 2, center=False; fsignal, 8, normalized=True; "
                "fsignal, 8, onesided=False; fsignal, 7; fsignal, 8, pad_mode='constant'; "
                "fsignal, 8, 3, 6, fhann6, center=False; fsignal, 8, window=fhann; "
                "fsignal, 8, 3, 6, fhann6, center=False, align_to_window=True; fsignal, 20; "
                "fsignal, 8, window=fhann32; fsignal, 8, window=fcomplex; fsignal, 8, 8; "
                "fsignals, 8, 3, center=False; fsignal, 8, 11, center=False; "
                "fsignal, 4, 1, window=fwin[:4]; fsignal, 8, pad_mode='replicate'"),
    *calls("""
        torch.stft(?) <- fsignal, 8, return_complex=False; fsignal, 8, window=fcomplex
        torch.stft(?) <- fsignal, 8, 4, 8, fwin, True, 'reflect', False, None, True
        fsignal.stft(8, return_complex=True)
    """),
]  # fmt: skip
ISTFT = [
    *every("torch.istft({args})",
           args="fspec * 1j, 8; fspec * 1j, 8, window=fwin; fspecs * 1j, 8, 2, window=fwin; "
                "fspecs * 1j, 8, 2, window=fwin, length=20; fspec * 1j, 8, 3, length=40; "
                "fspecs * 1j, 8, 2, window=fwin, length=30; fspecs * 1j, 8, 2, 6, fwin6; "
                "fspecs * 1j, 8, 2, window=fwin, length=5; fspecs * 1j, 8, 2, 6; "
                "fspec * 1j, 8, normalized=True; ffull * 1j, 8, onesided=False; "
                "ffull * 1j, 8, return_complex=True; fspecs * 1j, 8, 2, center=False; "
                "fspec * 1j, 9; ffull * 1j, 8, window=fcomplex, return_complex=True; "
                "fspec * 1j, 8, window=fhann32; fspec * 1j, 8, 5, window=fwin; fcspec, 8; "
                "fspec32, 8; ffull * 1j, 8; fspec32, 8, window=fwin"),
    *calls("""
        (fspec * 1j).istft(8)
        torch.istft(torch.stft(fsignal.real, 8, 2, return_complex=True), 8, 2)
    """),
]  # fmt: skip
GROUPS = {
    "transforms": TRANSFORMS, "order": ORDER, "windows": WINDOWS, "stft": STFT, "istft": ISTFT,
}  # fmt: skip
ERRORS = [
    *every("torch.fft.{name}({args})", name="fft; ifft; irfft; hfft; rfft; ihfft",
           args="vec, n=0; vec, n=-1; vec, dim=1; vec, norm='x'; f16; 3; sc; empty; mat, dim=-3"),
    *every("torch.fft.{name}({args})", name="fftn; ifftn; rfftn; irfftn; hfftn; ihfftn",
           args="mat, dim=(0, 0); mat, dim=(2,); mat, s=(1, 2, 3); mat, s=(1,), dim=(0, 1); "
                "mat, s=(0, 1); mat, s=(-2, 1); none; f16; 3; mat, norm='y'; mat, s=(1, 0)"),
    *every("torch.fft.{name}({args})", name="rfftn; irfftn; hfftn; ihfftn",
           args="sc; mat, dim=(); mat, s=()"),
    *every("torch.fft.{name}(vec)", name="fft2; ifft2; rfft2; irfft2; hfft2; ihfft2"),
    *every("torch.fft.{name}(mat, s=(3,))", name="fft2; ifft2; rfft2; irfft2; hfft2; ihfft2"),
    *every("torch.{name}({args})", name=_NAMES,
           args="-1; 5, dtype=torch.int64; 5, dtype=torch.complex64; 2.5"),
    *calls("""
        torch.fft.rfft(c64); torch.fft.ihfft(c64); torch.fft.rfftn(c64); torch.fft.ihfftn(c64)
        torch.fft.rfft2(fcspec); torch.fft.ihfft2(fcspec); torch.fft.irfft(vec[:1])
        torch.fft.?(mat, dim=2) <- fftshift; ifftshift
        torch.fft.?(sc) <- fftshift; ifftshift
        torch.fft.fftshift(mat, dim=())
        torch.fft.fftfreq(?) <- -1; 4, dtype=torch.int64; 4, dtype=torch.complex64
        torch.fft.rfftfreq(?) <- -4; 4, dtype=torch.int64; 4, dtype=torch.complex64
        torch.stft(?, return_complex=True) <- fsignal, 8, 0; fsignal, 8, 2, 9; fsignal, 50
        torch.stft(?, return_complex=True) <- fsignal, 8, 2, 8, fwin6; fsignal[:3], 8; fgrid, 8
        torch.stft(?, return_complex=True) <- fisignal, 8; fsignal, 8, align_to_window=True
        torch.stft(?, return_complex=True) <- fsignal, 40, center=False; fgrid, 3, center=False
        torch.stft(?, return_complex=True) <- fsignal, 0, center=False; sc, 3, center=False
        torch.stft(?, return_complex=True) <- fcomplex, 4, onesided=True; fsignal, 8, 2, 0
        torch.stft(fsignal, 8); torch.stft(fsignal, 8, window=fcomplex, onesided=True)
        torch.istft(?) <- fspec.real, 8; fcspec, 8, 0; fcspec, 8, 4, 9; fcspec, 8, 10
        torch.istft(?) <- fcspec, 8, 4, 8, fwin6; fcspec[0], 8; fcspec, 8, window=fzero
        torch.istft(?) <- fcspec[:, :0], 8; fcspec, 8, onesided=False; fcspec, 8, window=fcomplex
        torch.istft(?) <- fcspec[None, None], 8; fcspec, 8, 8, 4; fcspec, 8, length=0
        torch.istft(?) <- fcspec, 8, return_complex=True; fcspec, 7
        torch.istft(fcspec, 8, window=fhann, center=False)
    """),
]  # fmt: skip
NOT_COMPLEX = {r"\b(inf|nan)\b": "arithmetic of complex infinities is not defined alike"}
COARSE = {"fspec32": "transformed in single precision"}
OTHER_TRANSFORM = {
    r"fft\.i?fftn\(mat, dim=\(\)\)$": "along no dimension nothing is transformed; under PyTorch's "
                                      "vmap that means along all of them",
}  # fmt: skip
