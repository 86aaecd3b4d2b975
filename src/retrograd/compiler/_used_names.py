"""The names that code uses."""

from __future__ import annotations

import dis
import functools
import types


@functools.lru_cache(maxsize=256)
def names_in(code: types.CodeType) -> NamesIn:
    return NamesIn(code)


class NamesIn:
    """The names in some code, including nested functions: all of them, attributes, globals, globals
    that it assigns, and modules that it imports."""

    def __init__(self, code: types.CodeType) -> None:
        names: dict[str, None] = {}
        self.attributes: set[str] = set()
        self.globals: set[str] = set()
        self.stored: list[str] = []
        self.imported: list[str] = []
        codes = [code]
        while codes:
            each = codes.pop()
            names.update(dict.fromkeys(each.co_names))
            for instruction in dis.get_instructions(each):
                if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                    self.attributes.add(instruction.argval)
                elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    self.globals.add(instruction.argval)
                elif instruction.opname == "STORE_GLOBAL":
                    self.stored.append(instruction.argval)
                elif instruction.opname == "MATCH_CLASS":  # its names are not among those of code
                    names["getattr"] = None
                elif instruction.opname == "IMPORT_NAME":
                    self.imported.append(instruction.argval)
            codes += [c for c in each.co_consts if isinstance(c, types.CodeType)]
        self.all = list(names)
