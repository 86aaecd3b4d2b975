"""Attacks on the library: programs that look for defects for as long as they are given.

Run them with ``python -m tests.attack`` from the root of the repository; ``--help`` lists them. An
attack is a module of this package with a function ``attack(report, seed, seconds)``. It tries
things until the time is up, and tells the ``Report`` what it tried and what it found. The same seed
tries the same things in the same order.
"""
