"""Which variables keep an object alive, written as code: ``losses[3]``, ``self.history[...]``.

The garbage collector knows which objects refer to which. From the objects in question this goes to
what refers to them, to what refers to that, and so on, all of one level at a time, until a variable
is found. How far it goes, and how much it looks at, is bounded.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from retrograd._source import is_own
from retrograd.autograd._history import Meta, View
from retrograd.autograd._node import Node
from retrograd.autograd._wrap import Plug

DEEPEST = 6  # steps from an object to the variable
MOST = 500  # objects of one step
CO_OPTIMIZED = 1  # of the code of functions, whose variables are not a dictionary
ELEMENTS = 200_000  # of a container that are looked at
SEQUENCES = (list, tuple, deque, set, frozenset)


class Held(NamedTuple):
    """Something on the way from objects to a variable."""

    object: Any
    path: str  # from it to the objects: ``[3].loss``
    targets: frozenset[int]  # the ids of the objects
    name: str | None = None  # the key of a dictionary, or the number of a variable of a closure


class Holder(NamedTuple):
    """A variable that keeps objects alive."""

    text: str  # ``losses[...]``
    targets: frozenset[int]


def holders(objects: Sequence[Any], ignored: Iterable[Any] = ()) -> list[Holder]:
    """The variables that hold objects, and what else is known to if there is no variable."""
    frames = list(user_frames())
    snapshots = [frame.f_locals for frame in frames]
    skipped = {id(x) for x in (*ignored, *snapshots, objects, frames, snapshots)}
    level = [Held(x, "", frozenset([id(x)])) for x in objects]
    results: list[Holder] = []
    unnamed: list[Holder] = []
    seen: set[tuple[int, str]] = set()
    for _ in range(DEEPEST):
        if not level:
            break
        around: list[Held] = []
        pending = [held.object for held in level]
        # The collector does not know the variables of functions that are running.
        referrers = [*frames, *gc.get_referrers(*pending)]
        skipped |= {id(level), id(pending), id(referrers), id(around)}
        by_id: dict[int, list[Held]] = {}
        for held in level:
            by_id.setdefault(id(held.object), []).append(held)
        reached: set[int] = set()
        for referrer in referrers:
            if id(referrer) in skipped or _is(referrer, Node, Held, ModuleType):
                continue
            for step in steps(referrer, by_id):
                if isinstance(step, Holder):
                    results.append(step)
                    reached |= step.targets
                elif (id(referrer), step.path) not in seen and len(around) < MOST:
                    seen.add((id(referrer), step.path))
                    around.append(step)
                    reached |= step.targets
        for held in level:
            if held.path and not held.targets & reached:
                unnamed.append(Holder(f"a {type(held.object).__name__}{held.path}", held.targets))
        del referrers, pending
        level = around
    for frame, snapshot in zip(frames, snapshots, strict=True):
        # Up to Python 3.12, asking a function's frame for its variables has left copies of the
        # references there, which would keep what they refer to when the variables are gone.
        if type(snapshot) is dict and frame.f_code.co_flags & CO_OPTIMIZED:
            snapshot.clear()
    named: set[int] = set().union(*[holder.targets for holder in results])
    return results + [holder for holder in unnamed if not holder.targets & named]


def user_frames() -> Iterator[FrameType]:
    """The functions of the user's that are running, in all threads."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_name != "<module>" and not is_own(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back


def steps(referrer: Any, by_id: dict[int, list[Held]]) -> Iterator[Held | Holder]:
    """One step from objects to their referrers: variables, or other objects."""
    if _is(referrer, FrameType):
        yield from _in_frame(referrer, by_id)
    elif _is(referrer, dict):
        yield from _in_dict(referrer, by_id)
    elif _is(referrer, *SEQUENCES):
        inside = [(i, held) for i, x in enumerate(_some(referrer)) for held in by_id.get(id(x), ())]
        if inside and _is(inside[0][1].object, CellType):  # the closure of a function
            for i, held in inside:
                yield Held(referrer, held.path, held.targets, str(i))
        elif inside:
            index = f"[{inside[0][0]}]" if len({i for i, _ in inside}) == 1 else "[...]"
            paths = {held.path for _, held in inside}
            targets = frozenset().union(*[held.targets for _, held in inside])
            yield Held(referrer, index + (paths.pop() if len(paths) == 1 else ""), targets)
    elif _is(referrer, CellType):
        for held in by_id.get(id(referrer.cell_contents), ()):
            yield Held(referrer, held.path, held.targets)
    elif _is(referrer, FunctionType):
        for held in by_id.get(id(referrer.__closure__), ()):
            name = referrer.__code__.co_freevars[int(held.name or 0)]
            yield Holder(f"{name}{held.path} in {referrer.__qualname__}()", held.targets)
    else:
        yield from _in_object(referrer, by_id)


def _some(container: Any) -> Iterator[Any]:
    for i, x in enumerate(container):
        if i == ELEMENTS:
            return
        yield x


def _in_frame(frame: FrameType, by_id: dict[int, list[Held]]) -> Iterator[Holder]:
    code = frame.f_code
    if is_own(code.co_filename) or code.co_name == "<module>":
        return  # the variables of a module are a dictionary of their own
    cells = {id(held[0].object.cell_contents): held for held in by_id.values()
             if _is(held[0].object, CellType)}  # fmt: skip
    for name, value in frame.f_locals.items():
        for held in (*by_id.get(id(value), ()), *cells.get(id(value), ())):
            yield Holder(f"{name}{held.path} in {code.co_qualname}()", held.targets)


def _in_dict(content: dict[Any, Any], by_id: dict[int, list[Held]]) -> Iterator[Held | Holder]:
    inside = [
        (key, held)
        for _, (key, x) in zip(range(ELEMENTS), list(content.items()), strict=False)
        for held in by_id.get(id(x), ())
    ]
    if not inside:
        return
    if "__builtins__" in content:  # the variables of a module, or of code that is run by ``exec``
        module = content.get("__name__")
        is_module = getattr(sys.modules.get(str(module)), "__dict__", None) is content
        where = f"{module}." if is_module and module != "__main__" else ""
        for key, held in inside:
            if not (module == "__main__" and str(key).startswith("_")):  # of a shell
                yield Holder(f"{where}{key}{held.path}", held.targets)
        return
    for key, held in inside[:MOST]:
        name = key if isinstance(key, str) else None
        yield Held(content, f"[{key!r}]{held.path}", held.targets, name)


def _in_object(referrer: Any, by_id: dict[int, list[Held]]) -> Iterator[Held]:
    """What an object holds by its attributes. Those of tensors are not the user's, but ``grad``."""
    is_tensor = _is(referrer, Plug.tensor)
    if is_tensor or _is(referrer, Meta, View):
        grad = referrer.grad if _is(referrer, Meta) else None
        for x in gc.get_referents(referrer):
            for held in by_id.get(id(x), ()):
                yield Held(referrer, (".grad" if x is grad else "") + held.path, held.targets)
        if not is_tensor:
            return
    attributes: dict[str, Any] = {}
    for cls in type(referrer).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            attributes.setdefault(name, _plain(referrer, name))
    own = _plain(referrer, "__dict__")
    if isinstance(own, dict):
        attributes.update(own)
        for held in by_id.get(id(own), ()):  # the dictionary was found first
            inner = held.path[len(f"[{held.name!r}]") :]
            yield Held(referrer, f".{held.name}{inner}", held.targets)
    if is_tensor:
        return
    for name, value in attributes.items():
        for held in by_id.get(id(value), ()):
            yield Held(referrer, f".{name}{held.path}", held.targets)


def _is(x: Any, *types: type) -> bool:
    """As ``isinstance``, which however asks an object for its class, and some warn when asked."""
    return issubclass(type(x), types)


def _plain(x: Any, name: str) -> Any:
    """An attribute, without asking what the class may have to say about it."""
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return None
