"""What users can call besides the core of ``tensor/_methods.py``, and which module defines it.

Modules listed here are imported when one of their names is first used. A name goes into one or more
namespaces: ``torch`` (``torch.f``), ``method`` (``Tensor.f``), ``both`` (these two), ``in_place``
(``Tensor.f_``, made from ``f``), and the modules ``special``, ``linalg``, ``fft`` and
``nn.functional``. ``f=g`` means that what users call ``f`` is called ``g`` in the module.
"""

from __future__ import annotations

from typing import NamedTuple

INDEX: dict[str, dict[str, str]] = {
    # elementwise
    "pointwise": {},
    "special": {},
    # reductions and scans
    "statistics": {},
    "scans": {},
    # shape and selection
    "arranging": {},
    "placing": {},
    "sorting": {},
    # products and linear algebra
    "matrices": {},
    "linalg": {},
    "decompositions": {},
    # Fourier
    "fourier": {},
    # random
    "sampling": {},
    # neural networks
    "activations": {},
    "losses": {},
    "convolution": {},
    "pooling": {},
    "padding": {},
    "resampling": {},
    "embedding": {},
    "normalization": {},
    "attention": {},
}  # fmt: skip


class Place(NamedTuple):
    """Where a public name is defined: a module of ``ops`` and what it is called there."""

    module: str
    attribute: str


def names_of(*namespaces: str) -> dict[str, Place]:
    """The public names of some namespaces, and where they are defined."""
    found = {}
    for module, spaces in INDEX.items():
        for space in namespaces:
            for word in spaces.get(space, "").split():
                name, _, attribute = word.partition("=")
                found[name] = Place(module, attribute or name)
    return found
