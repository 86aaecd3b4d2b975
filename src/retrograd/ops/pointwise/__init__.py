"""Elementwise operations beyond the core: more arithmetic, choices, division, special functions."""
