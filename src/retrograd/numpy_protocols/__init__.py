"""NumPy functions on tensors: ``np.sin(t)``, ``np.linalg.solve(a, t)``, ``a * t``.

NumPy leaves a call to the argument that has ``__array_ufunc__`` or ``__array_function__``, which
for tensors lead here. A call becomes one of our operations, so it is recorded, batched, traced and
differentiated as any other. ``_ufuncs.py`` says which operation stands for which ufunc; functions
are defined by theme, with NumPy's arguments, where ours differ from NumPy's. A function without a
counterpart is run on the arrays of the tensors, unless that would lose a derivative, which is an
error.
"""

from retrograd.autograd._wrap import Plug
from retrograd.numpy_protocols import _functions, _ufuncs


class _protocols:  # noqa: N801 - not a class to make objects of
    array_ufunc = staticmethod(_ufuncs.array_ufunc)
    array_function = staticmethod(_functions.array_function)


Plug.protocols = lambda: _protocols
