"""Calls of NumPy's functions, as a program for NumPy would write them.

Names: ``x`` of shape (2, 3), ``y`` as ``x``, ``v`` and ``w`` of 3 elements, ``A`` of shape (3, 3),
``S`` symmetric and positive definite, ``z`` complex of shape (3,), ``n`` of 4 elements, one of them
not a number; these are tensors that require grad when we are tested. ``a`` (of shape (2, 3)), ``i``
(integers), ``m`` (a mask of shape (2, 3)) are arrays in any case.
"""

# ruff: noqa: SIM905

ELEMENTS = [
    f"np.{name}(x)"
    for name in (
        "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arctanh exp exp2 expm1 log log2 "
        "log10 log1p sqrt square cbrt reciprocal negative positive absolute fabs conjugate rint "
        "floor ceil trunc sign deg2rad rad2deg degrees radians sinc i0 fix isneginf isposinf "
        "isfinite isinf isnan signbit logical_not iscomplex isreal modf frexp spacing real imag "
        "angle ravel shape ndim size transpose atleast_1d atleast_2d atleast_3d fliplr flipud flip "
        "copy zeros_like ones_like rot90 sort argsort diff cumsum cumprod nancumsum nancumprod "
        "sum prod mean var std max min amax amin ptp median average nansum nanprod nanmean nanvar "
        "nanstd nanmax nanmin nanmedian all any argmax argmin nanargmax nanargmin count_nonzero "
        "squeeze cov corrcoef trapezoid gradient argwhere nonzero flatnonzero unique unique_values "
        "diag diagonal trace tril triu diagflat matrix_transpose unstack nan_to_num real_if_close "
        "isrealobj iscomplexobj array_repr array_str array2string around round broadcast_arrays "
        "result_type min_scalar_type ediff1d"
    ).split()
]
PAIRS = [
    f"np.{name}(x, {other})"
    for name in (
        "add subtract multiply divide power float_power arctan2 hypot logaddexp logaddexp2 maximum "
        "minimum fmax fmin copysign remainder fmod floor_divide heaviside nextafter divmod equal "
        "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
        "isclose allclose array_equal array_equiv may_share_memory shares_memory"
    ).split()
    for other in ("y", "a", "0.3")
    if not (name in ("may_share_memory", "shares_memory") and other == "0.3")
]
INTEGERS = [
    f"np.{name}(t, i)"
    for name in "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm ldexp".split()
] + ["np.invert(t)", "np.bitwise_count(t)", "np.mean(t)", "np.hypot(t, t)", "np.linalg.norm(t)"]
OPERATORS = [
    "a * x", "a + x", "a - x", "a / x", "a ** x", "a // x", "a % x", "a @ x.T", "a < x", "a >= x",
    "a == x", "x * a", "x @ a.T", "np.float64(2) * x", "2 - np.float32(2) * x", "a[:, 0] @ x",
    "np.float64(2) ** x", "-(a * 2 - x)",
]
METHODS = [
    "np.add.reduce(x)", "np.add.reduce(x, axis=(0, 1))", "np.multiply.reduce(x, axis=1)",
    "np.maximum.reduce(x, axis=1, keepdims=True)", "np.minimum.reduce(x, initial=0.3)",
    "np.logaddexp.reduce(x)", "np.hypot.reduce(x)", "np.subtract.reduce(x, axis=1)",
    "np.logical_and.reduce(x)", "np.logical_or.reduce(x, axis=None)",
    "np.add.reduce(x, where=m)", "np.maximum.reduce(x, where=m, initial=0.1)",
    "np.add.reduce(x, dtype=np.float32)", "np.add.accumulate(x)", "np.multiply.accumulate(x, 1)",
    "np.maximum.accumulate(v)", "np.minimum.accumulate(v)", "np.logaddexp.accumulate(v)",
    "np.hypot.accumulate(v)", "np.add.reduceat(v, [0, 2])", "np.multiply.reduceat(x, [0, 1, 0], 1)",
    "np.multiply.outer(v, x)", "np.subtract.outer(v, w)", "np.add.outer(2.0, v)",
    "np.sin(x, where=m, out=a * 0.0 + 0 * x)", "np.where(m, np.log(x, where=m, out=None), 0.0)",
    "np.where(m, np.arccosh(x + 1, where=m, out=None), 0.0)",
    "np.where(m, np.divide(x, y, where=m, out=None), 0.0)",
    "np.exp(x, dtype=np.float32)", "np.add(x, y, dtype='f8')",
    "np.add(x, y, casting='same_kind', order='K', subok=True)", "np.vecdot(x, y)",
    "np.vecdot(x, y, axis=0)", "np.matvec(A, v)", "np.vecmat(v, A)", "np.matmul(x, A)",
    "np.matmul(a, A)", "np.arccosh(x + 1)",
]
REDUCTIONS = [
    f"np.{name}(x, {options})"
    for name in "sum prod mean var std max min ptp median average all any nansum nanmean nanmax "
    "nanmin nanstd nanvar nanprod nanmedian".split()
    for options in ("axis=0", "axis=-1, keepdims=True", "axis=(0, 1)", "0")
] + [
    "np.sum(x, axis=())", "np.mean(x, axis=())", "np.sum(x, initial=2.0)", "np.sum(x, where=m)",
    "np.sum(x, 0, np.float32)", "np.prod(x, initial=2.0, where=m)", "np.mean(x, where=m)",
    "np.mean(x, axis=1, where=m)", "np.var(x, ddof=1)", "np.var(x, axis=0, correction=1)",
    "np.std(x, 0, None, None, 1)", "np.var(x, where=m, keepdims=True)", "np.std(x, where=m)",
    "np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True))", "np.max(x, initial=0.5)",
    "np.max(x, where=m, initial=0.2)", "np.min(x, axis=1, where=m, initial=5.0)",
    "np.all(x > 0.5, where=m)", "np.any(x > 0.5, axis=1, where=m)", "np.argmax(x, axis=1)",
    "np.argmin(x, axis=0, keepdims=True)", "np.average(x, weights=y)",
    "np.average(x, axis=1, weights=v)", "np.average(x, axis=0, returned=True)",
    "np.average(x, weights=y, axis=1, returned=True, keepdims=True)",
    "np.count_nonzero(x, axis=0)", "np.cumsum(x, axis=1)", "np.cumprod(x, 0)",
    "np.cumulative_sum(v)", "np.cumulative_sum(x, axis=1, include_initial=True)",
    "np.cumulative_prod(v, include_initial=True)", "np.quantile(x, 0.3)",
    "np.quantile(x, [0.1, 0.7], axis=1)", "np.quantile(x, 0.3, axis=0, method='lower')",
    "np.quantile(x, [[0.2, 0.9]], keepdims=True)", "np.percentile(x, 30, axis=1)",
    "np.nanquantile(n, 0.4)", "np.nanpercentile(n, [20, 80])", "np.nansum(n)", "np.nanmean(n)",
    "np.nanvar(n)", "np.nanstd(n, ddof=1)", "np.nanmax(n)", "np.nanmin(n)", "np.nanmedian(n)",
    "np.nanprod(n)", "np.nancumsum(n)", "np.nancumprod(n)", "np.nanargmax(n)", "np.nanargmin(n)",
    "np.sum(z)", "np.var(z)", "np.mean(z)",
]  # fmt: skip
SHAPES = [
    "np.reshape(x, (3, 2))", "np.reshape(x, -1)", "np.reshape(x, (3, 2), order='F')",
    "np.reshape(x, (3, 2), copy=True)", "np.ravel(x, 'F')", "np.transpose(x, (1, 0))",
    "np.moveaxis(x, 0, 1)", "np.rollaxis(x, 1)", "np.swapaxes(x, 0, 1)",
    "np.squeeze(x[:1], axis=0)", "np.expand_dims(x, 0)", "np.expand_dims(x, (0, -1))",
    "np.broadcast_to(v, (2, 3))", "np.broadcast_arrays(x, v)", "np.atleast_2d(v, x)",
    "np.concatenate([x, a])", "np.concatenate((x, y), axis=1)", "np.concatenate([x, v], axis=None)",
    "np.concatenate([x, x], dtype=np.float32)", "np.stack([x, y], axis=1)", "np.vstack([x, v])",
    "np.hstack([x, y])", "np.dstack([x, a])", "np.column_stack([v, A])",
    "np.block([[x, x], [a, y]])", "np.block([v, w])", "np.append(x, v)", "np.append(x, y, axis=0)",
    "np.split(v, 3)", "np.split(x, [1], axis=1)", "np.array_split(v, 2)", "np.hsplit(x, 3)",
    "np.vsplit(x, 2)", "np.dsplit(x[None], 3)", "np.unstack(x, axis=1)", "np.tile(x, 2)",
    "np.tile(x, (2, 1, 2))", "np.repeat(x, 2)", "np.repeat(x, [1, 2], axis=0)", "np.flip(x, 1)",
    "np.lib.stride_tricks.sliding_window_view(x, 2, axis=1)",
    "np.lib.stride_tricks.sliding_window_view(x, (2, 2))",
    "np.lib.stride_tricks.sliding_window_view(v, (2, 1), axis=(0, -1))",
    "np.roll(x, 1)", "np.roll(x, (1, 2), axis=(0, 1))", "np.roll(x, 1, axis=1)",
    "np.rot90(x, 2)", "np.pad(x, 1)", "np.pad(x, ((1, 0), (0, 2)), constant_values=5.0)",
    "np.pad(x, (1, 2), 'edge')", "np.pad(x, 1, mode='reflect')", "np.pad(v, 2, mode='symmetric')",
    "np.pad(v, (0, 4), mode='wrap')", "np.resize(x, (3, 3))", "np.delete(x, 1, axis=1)",
    "np.delete(v, [0, 2])", "np.insert(v, 1, 5.0)", "np.insert(v, [0, 2], w[:2])",
    "np.insert(x, 1, w[:2], axis=1)", "np.insert(x, 0, v, axis=0)", "np.diagonal(A, offset=1)",
    "np.trace(A, 1)", "np.trace(A, dtype=np.float32)", "np.diag(v, 1)", "np.diagflat(v, k=-1)",
    "np.tril(A, -1)", "np.triu(A, k=1)", "np.vander(v)", "np.vander(v, 2, increasing=True)",
    "A[np.triu_indices_from(A, 1)]", "A[np.tril_indices_from(A)]", "A[np.diag_indices_from(A)]",
    "np.astype(x, np.float32)", "np.zeros_like(x, dtype=np.int64, shape=(2,))",
    "np.ones_like(x, np.float32)", "np.full_like(x, 3.0)", "np.full_like(x, v)",
    "np.empty_like(x).shape", "np.meshgrid(v, w)", "np.meshgrid(v, x[0, :2], indexing='ij')",
    "np.meshgrid(v, w, sparse=True)", "np.copy(x)", "np.size(x, 1)",
]  # fmt: skip
CHOICES = [
    "np.clip(x, 0.3, 0.7)", "np.clip(x, 0.3, None)", "np.clip(x, min=y, max=0.9)",
    "np.clip(x, a, y)",
    "np.round(x, 1)", "np.around(x, decimals=2)", "np.angle(z)", "np.angle(z, deg=True)",
    "np.real(z)", "np.imag(z)", "np.conj(z)", "np.abs(z)", "np.isreal(z)", "np.iscomplex(z)",
    "np.nan_to_num(n)", "np.nan_to_num(n, nan=2.0, posinf=1.0)", "np.where(m, x, y)",
    "np.where(x > 0.5, x, 0.0)", "np.where(x > 0.5)", "np.where(m, 1.0, a * x)",
    "np.select([x < 0.3, x < 0.6], [x, x**2], 7.0)", "np.choose([0, 1, 0], [v, w])",
    "np.piecewise(v, [v < 0.5, v >= 0.5], [lambda t: t**2, lambda t: np.log(t)])",
    "np.piecewise(v, [v < 0.5], [0.0, np.sqrt])",
    "np.diff(x, n=2, axis=1)", "np.diff(v, prepend=0.0, append=w)", "np.ediff1d(v, to_begin=1.0)",
    "np.gradient(v)", "np.gradient(v, 0.5, edge_order=2)", "np.gradient(x)",
    "np.gradient(x, 2.0, axis=1)", "np.gradient(v, [0.0, 1.0, 3.0])", "np.trapezoid(x, dx=0.5)",
    "np.trapezoid(x, v, axis=1)", "np.trapezoid(v, np.cumsum(w))", "np.unwrap(v * 9)",
    "np.unwrap(x * 9, axis=0)", "np.unwrap(v * 5, period=3.0)",
    "np.interp(v, [0.0, 0.5, 1.0], [1.0, 2.0, 0.5])", "np.interp(v, np.cumsum(w), w)",
    "np.interp(v * 3 - 1, [0.0, 0.5, 1.0], w, left=-1.0, right=2.0)",
    "np.interp(v * 5, [0.1, 0.4, 0.9], w, period=1.3)", "np.linspace(v[0], 3.0, 5)",
    "np.linspace(v, w, 4, endpoint=False, axis=1)", "np.linspace(v[0], v[1], 4, retstep=True)",
    "np.logspace(v[0], v[1], 4)", "np.logspace(v[0], v[1], 4, base=2.0)",
    "np.geomspace(v[0], 8.0, 4)", "np.apply_along_axis(np.sum, 1, x)",
    "np.apply_along_axis(lambda r: r * r[0], 0, x)", "np.apply_over_axes(np.sum, x, (0, 1))",
    "np.sort(x, axis=None)", "np.sort(x, axis=0)", "np.argsort(x, axis=0)",
    "np.sort(np.partition(v, 1))", "np.lexsort((v, w))", "np.searchsorted(np.sort(v), w)",
    "np.searchsorted([0.1, 0.5], v, side='right')", "np.digitize(v, [0.2, 0.5])",
    "np.digitize(v, [0.9, 0.5, 0.1], right=True)", "np.take(x, [0, 5])",
    "np.take(x, [2, 0], axis=1)",
    "np.take(x, [4, 7], mode='wrap')", "np.take_along_axis(x, np.argsort(x, axis=1), axis=1)",
    "np.take_along_axis(x, np.array([1, 0]), None)", "np.compress([True, False, True], x, axis=1)",
    "np.extract(m, x)", "np.bincount([0, 2, 0], weights=v)", "np.bincount([0, 2, 0], v, 5)",
    "np.isin(v, [v[0]])", "np.unique(x)", "np.unique(np.floor(x * 3) / 3 + 0 * x)",
    "np.unique(v, return_index=True, return_inverse=True, return_counts=True)",
    "np.isclose(x, x + 1e-9)", "np.allclose(x, x)", "np.isclose(n, n, equal_nan=True)",
    "np.result_type(x, a)", "np.can_cast(x.dtype, 'f8')", "np.common_type(x)",
    "np.einsum_path('ij,jk', x, A)",
]  # fmt: skip
PRODUCTS = [
    "np.dot(v, w)", "np.dot(x, v)", "np.dot(x, A)", "np.dot(2.0, v)", "np.dot(v, A)",
    "np.dot(x, np.stack([A, A]))", "np.inner(x, y)", "np.inner(v, w)", "np.outer(v, w)",
    "np.outer(a, v)", "np.vdot(z, z * 2j)", "np.vdot(x, y)", "np.tensordot(x, y)",
    "np.tensordot(x, A, 1)", "np.tensordot(x, y, axes=([0], [0]))", "np.tensordot(x, y, (1, 1))",
    "np.kron(x, A)", "np.cross(v, w)", "np.cross(x, v)", "np.cross(A, A + 1, axis=0)",
    "np.cross(A, x[0], axisa=0)", "np.einsum('ij,jk->ik', x, A)", "np.einsum('ii', A)",
    "np.einsum('i j, j', x, v)", "np.einsum(x, [0, 1], v, [1], [0])",
    "np.einsum('ij,jk', a, A, optimize=True)", "np.convolve(v, w)", "np.convolve(n[:2], v, 'same')",
    "np.convolve(v, x[0, :2], 'valid')", "np.correlate(v, w)", "np.correlate(v, w[:2], 'full')",
    "np.correlate(v, w[:2], 'same')", "np.correlate(z, z * 1j, 'full')", "np.cov(v, w)",
    "np.cov(x, rowvar=False)", "np.cov(v)", "np.cov(x, bias=True)", "np.cov(x, ddof=0)",
    "np.cov(x, aweights=[1.0, 2.0, 3.0])", "np.corrcoef(x)", "np.corrcoef(v, w)",
    "np.polyval(v, x)", "np.polyval([1.0, 2.0], v)", "np.polyadd(v, [1.0, 2.0])",
    "np.polysub([1.0, 2.0], v)", "np.polymul(v, w)", "np.polyder(v)", "np.polyder(n[:2], 1)",
    "np.polyint(v)", "np.polyint(v, 2, k=[1.0, 2.0])", "np.polyfit(v, w, 1)",
    "np.polyfit(v, A, 1, w=w)", "np.sort(np.abs(np.roots([1.0, 5.0, v[0]])))",
]  # fmt: skip
LINALG = [
    "np.linalg.norm(x)", "np.linalg.norm(x, axis=1)", "np.linalg.norm(v, 1)",
    "np.linalg.norm(x, 'nuc')", "np.linalg.norm(x, np.inf, axis=(0, 1), keepdims=True)",
    "np.linalg.norm(x, 'fro')", "np.linalg.norm(v, np.inf)", "np.linalg.norm(x[None])",
    "np.linalg.matrix_norm(x)", "np.linalg.matrix_norm(x, ord=2, keepdims=True)",
    "np.linalg.vector_norm(x)", "np.linalg.vector_norm(x, axis=(0, 1), ord=3)",
    "np.linalg.det(A)", "np.linalg.slogdet(A)", "np.linalg.inv(A)", "np.linalg.pinv(x)",
    "np.linalg.solve(A, v)", "np.linalg.solve(A, A.T)", "np.linalg.solve(np.stack([A, A]), v)",
    "np.linalg.lstsq(x.T, v)", "np.linalg.lstsq(x, v[:2])", "np.linalg.lstsq(A, x.T)",
    "np.sort(np.abs(np.linalg.eigvals(A)))", "np.linalg.eigvalsh(S)", "np.linalg.eigh(S)[0]",
    "np.abs(np.linalg.eigh(S)[1])", "np.sort(np.abs(np.linalg.eig(A).eigenvalues))",
    "np.linalg.eigvalsh(S, 'U')", "np.linalg.svd(x, compute_uv=False)",
    "np.abs(np.linalg.svd(x, full_matrices=False)[0])", "np.linalg.svd(x)[1]",
    "np.linalg.svdvals(x)", "np.abs(np.linalg.qr(A)[1])", "np.abs(np.linalg.qr(A, 'r'))",
    "np.abs(np.linalg.qr(x.T).Q)", "np.linalg.cholesky(S)", "np.linalg.cholesky(S, upper=True)",
    "np.linalg.matrix_power(A, 3)", "np.linalg.matrix_power(A, -1)", "np.linalg.matrix_rank(A)",
    "np.linalg.matrix_rank(v)", "np.linalg.cond(A)", "np.linalg.cond(A, 1)",
    "np.linalg.multi_dot([x, A, A])", "np.linalg.tensorinv(A.reshape(3, 3, 1), 1)",
    "np.linalg.tensorsolve(A, v)", "np.linalg.cross(v, w)", "np.linalg.outer(v, w)",
    "np.linalg.tensordot(x, y, axes=2)", "np.linalg.matmul(x, A)", "np.linalg.vecdot(x, y)",
    "np.linalg.vecdot(x, y, axis=0)", "np.linalg.diagonal(A, offset=1)",
    "np.linalg.trace(np.stack([A, 2 * A]))", "np.linalg.matrix_transpose(x)",
]  # fmt: skip
FOURIER = [
    "np.fft.fft(v)", "np.fft.fft(x, 4, 0)", "np.fft.fft(x, n=2, axis=1, norm='ortho')",
    "np.fft.ifft(z)", "np.fft.rfft(v)", "np.fft.irfft(z)", "np.fft.irfft(z, 5)", "np.fft.hfft(z)",
    "np.fft.ihfft(v)", "np.fft.fft2(x)", "np.fft.ifft2(x)", "np.fft.rfft2(x)",
    "np.fft.irfft2(x, axes=(1, 0))", "np.fft.fftn(x)", "np.fft.ifftn(x, axes=(0,))",
    "np.fft.rfftn(x)", "np.fft.irfftn(x)", "np.fft.fftshift(v)", "np.fft.ifftshift(x, axes=1)",
]  # fmt: skip
SPECIAL = [
    f"sp.{name}(x)"
    for name in "erf erfc erfinv gammaln digamma psi expit logit entr i0 i0e i1 i1e j0 j1 y0 y1 k0 "
    "k1 ndtr ndtri log_ndtr erfcx".split()
] + ["sp.xlogy(x, y)", "sp.xlog1py(x, y)", "sp.zeta(2.0, x)", "sp.gammainc(2.0, x)"]
CALLS = [*ELEMENTS, *PAIRS, *INTEGERS, *OPERATORS, *METHODS, *REDUCTIONS, *SHAPES, *CHOICES,
         *PRODUCTS, *LINALG, *FOURIER, *SPECIAL]  # fmt: skip
