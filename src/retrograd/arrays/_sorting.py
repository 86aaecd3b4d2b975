"""Sorting, searching and scattering."""
