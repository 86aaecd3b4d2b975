"""``torch.hub`` for models that are on this machine: nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_folder: list[str] = []
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the hash that the name of a download may end in


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **options: Any) -> Any:
    """Call a function of the ``hubconf.py`` in a folder.

    Args:
        repo_or_dir: the folder.
        model: the name of the function.
        *args: its arguments.
        source: ``"local"``; RuntimeError for anything else.
        **options: its keyword arguments; those of downloading are ignored.

    Returns:
        What the function returns: a model.
    """
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        options.pop(name, None)
    with _hubconf(repo_or_dir, source) as module:
        return _entry(module, model)(*args, **options)


def list(github: str, source: str = "github", **ignored: Any) -> Any:  # noqa: A001 - PyTorch's name
    """The names of the functions of the ``hubconf.py`` in a folder.

    Args:
        github: the folder.
        source: ``"local"``; RuntimeError for anything else.
        **ignored: options of downloading.
    """
    with _hubconf(github, source) as module:
        return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github: str, model: str, source: str = "github", **ignored: Any) -> str | None:  # noqa: A001
    """The docstring of a function of the ``hubconf.py`` in a folder.

    Args:
        github: the folder.
        model: the name of the function.
        source: ``"local"``; RuntimeError for anything else.
        **ignored: options of downloading.
    """
    with _hubconf(github, source) as module:
        doc: str | None = _entry(module, model).__doc__
        return doc


@contextmanager
def _hubconf(folder: str, source: str) -> Iterator[Any]:
    if source != "local":
        raise RuntimeError(
            f"retrograd downloads nothing: get {folder!r} yourself, then use "
            "torch.hub.load(folder, model, source='local')"
        )
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    sys.path.insert(0, os.path.abspath(folder))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(os.path.abspath(folder))


def _entry(module: Any, name: str) -> Any:
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def get_dir() -> str:
    """The folder that downloads would go to.

    Returns:
        What ``set_dir`` set, or a folder in the user's cache.
    """
    return _folder[-1] if _folder else os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The folder of PyTorch's own files in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str) -> None:
    """Set the folder that downloads would go to.

    Args:
        d: the folder.
    """
    _folder[:] = [os.path.expanduser(d)]


def _no_download(url: str, *given: Any, **named: Any) -> NoReturn:
    """Raises a RuntimeError: downloads are not supported."""
    raise RuntimeError(f"retrograd downloads nothing: get {url} yourself, then use torch.load")


download_url_to_file = load_state_dict_from_url = _no_download

__all__ = ["HASH_REGEX", "download_url_to_file", "get_dir", "help", "list", "load",
           "load_state_dict_from_url", "set_dir"]  # fmt: skip
