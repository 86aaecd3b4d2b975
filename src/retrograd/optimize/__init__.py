"""SciPy's solvers with exact derivatives, and derivatives through solvers."""

from retrograd.optimize._constraints import Bounds, LinearConstraint, NonlinearConstraint
from retrograd.optimize._equations import fixed_point, fsolve, root
from retrograd.optimize._fitting import curve_fit, least_squares
from retrograd.optimize._implicit import implicit
from retrograd.optimize._linear import cg, gmres
from retrograd.optimize._minimize import minimize

__all__ = ["Bounds", "LinearConstraint", "NonlinearConstraint", "cg", "curve_fit",
           "fixed_point", "fsolve", "gmres", "implicit", "least_squares", "minimize",
           "root"]  # fmt: skip
