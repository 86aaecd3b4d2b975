"""Differential equations and integrals, with derivatives."""

from retrograd.integrate._initial_values import odeint, solve_ivp
from retrograd.integrate._quadrature import quad
from retrograd.integrate._taylor import odeint_taylor

__all__ = ["odeint", "odeint_taylor", "quad", "solve_ivp"]
