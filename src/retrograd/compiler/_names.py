"""Names of variables in the text of a program. A name is reused when its variable is no longer
needed, so that assigning the next value frees the old one, as in handwritten code."""

from __future__ import annotations

import heapq
import keyword
from collections import defaultdict
from collections.abc import Iterable

from retrograd.compiler._program import Var
from retrograd.compiler._statements import is_temporary


class Names:
    """The names that variables have at one point of a program: ``h``, ``h_2``, ``t1``."""

    def __init__(self, taken: Iterable[str] = (), outer: Names | None = None) -> None:
        self._outer = outer
        self._taken = {"np", *taken}  # not available to new variables
        self._used: set[str] = set()  # names that variables have had
        self._in_use: set[str] = set()
        self._now: dict[Var, tuple[str, str, int]] = {}  # name, word, number
        self._free: dict[str, list[int]] = defaultdict(list)  # by word: numbers to reuse
        self._counts: dict[str, int] = defaultdict(int)
        self.wanted: dict[Var, str] = {}  # names reserved for certain variables

    def __getitem__(self, var: Var) -> str:
        return self._now[var][0]

    def inner(self) -> Names:
        """The names of a nested function, which sees those that are in use now."""
        return Names(self._taken | self._in_use, self)

    def give(self, var: Var) -> str:
        """A name for a new variable: the user's name for it or ``t``, and a number if needed."""
        if self.wanted and var in self.wanted:
            self._now[var] = (self.wanted[var], "", 0)
            return self.wanted[var]
        word = "" if is_temporary(var) else var.name
        free = self._free[word]
        while True:
            if free:
                number = heapq.heappop(free)
            else:
                self._counts[word] += 1
                number = self._counts[word]
            name = f"t{number}"
            if word:
                name = word if number == 1 else f"{word}_{number}"
            if name not in self._taken and name not in self._in_use:
                break
        self._now[var] = (name, word, number)
        self._used.add(name)
        self._in_use.add(name)
        return name

    def call(self, var: Var, name: str) -> None:
        """Give a variable the name that it has elsewhere."""
        self._now[var] = (name, "", 0)
        self._taken.add(name)

    def hand_on(self, old: Var, new: Var) -> None:
        """Pass the name of a variable to the one that overwrites its memory."""
        self._now[new] = self._now.pop(old)

    def free(self, var: Var) -> str:
        """Make the name of a variable available again."""
        name, word, number = self._now.pop(var)
        self._in_use.discard(name)
        heapq.heappush(self._free[word], number)
        return name

    def reserve(self, wanted: str) -> str:
        """A name for an object other than a variable, which no variable has or will have, here or
        in enclosing functions."""
        name, number = wanted, 1
        while self.is_known(name) or keyword.iskeyword(name):
            number += 1
            name = f"{wanted}_{number}"
        names: Names | None = self
        while names is not None:
            names._taken.add(name)
            names = names._outer
        return name

    def borrow(self, wanted: str) -> str:
        """A name that is not in use now, for an object that is needed only here."""
        name, number = wanted, 1
        while name in self._taken or name in self._in_use:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def is_known(self, name: str) -> bool:
        """Whether a name is or was in use, here or in enclosing functions."""
        if name in self._taken or name in self._used:
            return True
        return self._outer is not None and self._outer.is_known(name)
