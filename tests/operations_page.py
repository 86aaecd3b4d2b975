"""Writes docs/operations.md: what can be called, what it is made of, and what PyTorch has besides.

All of it is read off the index and the table, so that the page cannot say anything else than the
code does. ``python tests/operations_page.py`` writes the page; a test asks that it is up to date.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import retrograd
from retrograd.ops._index import INDEX
from retrograd.ops._operation import TABLE, Operation
from retrograd.tensor._public import names_in
from retrograd.viz._expressions import definition_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operations.md"
NAMES = Path(__file__).with_name("pytorch_names.txt")
SPACES = ("torch", "Tensor", "linalg", "fft", "special", "nn.functional")

# What is left out for good, or belongs to another part of the package (pattern: reason).
NOT_HERE = {
    r"^q_|^quantize|^quantized|dequantize|int_repr|fbgemm|qparams|fake_quant|empty_quantized":
        "quantized numbers",
    r"sparse|coalesce|(^|_)indices(_copy)?$|^values(_copy)?$|^(hs|ds|ss|hsp|sp|s)mm$|sspaddmm|_nnz|"
    r"to_dense|to_padded|dense_dim|saddmm": "sparse and nested tensors",
    r"cudnn|mkldnn|miopen|cuda|^xpu$|^ipu$|^hpu$|^mtia$|vulkan|_xla_|pin_memory|record_stream|"
    r"autocast|is_pinned|is_shared|share_memory|_default_device|get_device_module|module_load|"
    r"^to_mkldnn|is_distributed": "other devices and their libraries",
    r"^sym_|_ir_|^parse_|^compile|while_loop|^cond$|^fork$|^wait$|type_list|cxx11|type_comment|"
    r"boolean_dispatch|has_torch|handle_torch|^assert_int|^Optional$|^List|^reproducibility|"
    r"classproperty|^is_storage$|merge_type": "compilers, tracers and PyTorch's own tools",
    r"deterministic|warn_always|flush_denormal|interop|matmul_precision|profiler|typename|"
    r"set_default_tensor|multiprocessing|file_path|thread_safe|init_num_threads|"
    r"anomaly_enabled$": "settings without a meaning here",
    r"^native_|_backward_|^batch_norm_|^conv_tbc|embedding_renorm|"
    r"^norm_except|frobenius|nuclear|slice_inverse|as_subclass|dim_order":
        "internal forms of other functions",
    r"^(load|save|from_file)$|^storage|untyped|data_ptr|^set_$|resize|reinforce|is_set_to|^rename|"
    r"refine_names|align_|has_names|^map|^apply_$|to_dlpack|unsafe_set": "storages and files",
    r"^vmap$": "transforms of functions, which come later",
}  # fmt: skip


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page(operations: Mapping[str, Operation] = TABLE) -> str:
    """The whole page, of the operations of the package or of more."""
    for module in INDEX:
        importlib.import_module(f"retrograd.{module}")
    count = sum(len(names) for names in ours().values())
    with_derivative = [op for op in operations.values() if op.differentiable]
    lines = [
        "# Operations",
        "",
        "Written by `python tests/operations_page.py` from the table of operations; not by hand.",
        "",
        f"{count} names of PyTorch's functions, methods and in-place methods are here, made of "
        f"{len(operations)} operations, of which {len(with_derivative)} have a derivative. Each "
        "name and each operation has samples in `tests/samples`, which are compared with PyTorch "
        "in four dtypes: values, graphs, gradients, second derivatives. Both modes of every "
        "operation are compared with finite differences and with each other.",
        "",
        *called(),
        *primitives(operations),
        *series(operations),
        *table(operations),
        *missing(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


# -- what can be called ----------------------------------------------------------------------


def ours() -> dict[str, list[str]]:
    """The public names of each namespace."""
    found = {
        "torch": set(names_in("torch")),
        "Tensor": {  # without what it has on a mesh of devices alone
            n for n in dir(retrograd.Tensor) if not n.startswith("_")
            and type(getattr(retrograd.Tensor, n)).__name__ != "_OfMesh"
        },
    }
    for space in SPACES[2:]:
        found[space] = set(names_in(space.removeprefix("nn.")))
    return {space: sorted(names) for space, names in found.items()}


def called() -> Iterator[str]:
    yield "## What can be called"
    yield ""
    theirs = pytorch_names()
    for space, names in ours().items():
        known = [n for n in names if n in theirs[space] or space != "Tensor"]
        prefix = (
            "Tensor." if space == "Tensor" else "torch." + (f"{space}." if space != "torch" else "")
        )
        yield f"`{prefix}`: " + ", ".join(f"`{n}`" for n in known)
        yield ""


# -- what it is made of ----------------------------------------------------------------------

# How a tangent goes forward through the members of each family.
FAMILIES = {
    "elementwise": "the rule, applied to the tangent",
    "linear": "the operation itself, applied to the tangent",
    "multilinear": "the product rule over the operation itself",
    "reduction": "the sum of slopes, which the rule gives for ones, times tangents",
    "selecting": "a gather of the elements that were selected",
    "matrix function": "the rule between two transpositions",
    "composite": "that of the operations in the definition",
    "undifferentiable": "an error, as in PyTorch",
    "operation": "the rule, transposed a second time, or a rule of its own",
    "constant": "none",
}


def word_for(family: str) -> str:
    return "general" if family == "operation" else family


def of_family(operations: Mapping[str, Operation], family: str) -> list[Operation]:
    members = (op for op in operations.values() if op.family == family)
    return sorted(members, key=lambda op: op.name)


def primitives(operations: Mapping[str, Operation]) -> Iterator[str]:
    count = sum(op.family != "composite" for op in operations.values())
    yield "## The primitives"
    yield ""
    yield (
        f"{count} operations are primitives. The others are composites: their meaning is an "
        "expression in other operations, whatever kernels they have besides. What a mode does "
        "with an operation follows from its family."
    )
    yield ""
    yield "| family | members | forward mode |"
    yield "| --- | --- | --- |"
    for family, how in FAMILIES.items():
        yield f"| {word_for(family)} | {len(of_family(operations, family))} | {how} |"
    yield ""
    members = of_family(operations, "operation")
    yield f"Those of the general family ({len(members)}) fit no other:"
    yield ""
    yield "| operation | why it is general |"
    yield "| --- | --- |"
    yield from (f"| `{op.name}` | {op.reason} |" for op in members)
    yield ""
    own = sorted((op for op in operations.values() if op.jvp), key=lambda op: op.name)
    yield f"Those with a tangent rule of their own ({len(own)}):"
    yield ""
    yield "| operation | family | why |"
    yield "| --- | --- | --- |"
    yield from (f"| `{op.name}` | {word_for(op.family)} | {op.reason} |" for op in own)
    yield ""


# How the coefficients of a Taylor series follow, and what each element of a result may depend on.
SERIES_AND_PATTERNS = {
    "elementwise": ("the tangent rule as a differential equation, one order after the other",
                    "the same elements of the operands"),
    "linear": ("the operation itself, on each coefficient",
               "what the map uses, found by calling it"),
    "multilinear": ("the product of polynomials", "the same, in each operand"),
    "reduction": ("the tangent rule as a differential equation", "all elements reduced to it"),
    "selecting": ("the same selection of each coefficient",
                  "the elements selected; for every value, all that could be"),
    "matrix function": ("the tangent rule as a differential equation", "everything"),
    "composite": ("that of its definition", "what its definition says"),
    "undifferentiable": ("an error, as in PyTorch", "everything"),
    "operation": ("the tangent rule as a differential equation", "everything"),
    "constant": ("none: it is constant", "nothing"),
}  # fmt: skip


def series(operations: Mapping[str, Operation]) -> Iterator[str]:
    """Which operations have Taylor series and patterns, and how they come about."""
    importlib.import_module("retrograd.autograd._recurrences")
    recurrences = importlib.import_module("retrograd.autograd._series").RECURRENCES
    yield "## Taylor series and sparsity patterns"
    yield ""
    yield (
        "No operation declares anything for series (see [high-orders.md](high-orders.md)) or for "
        "patterns (see [sparse.md](sparse.md)): both follow from the family. Series to order 4 of "
        "the samples of all operations are compared with nested tangents, and patterns with dense "
        "Jacobians."
    )
    yield ""
    yield "| family | with a series | coefficients of a series | an element depends on |"
    yield "| --- | --- | --- | --- |"
    for family, (coefficients, depends) in SERIES_AND_PATTERNS.items():
        members = of_family(operations, family)
        having = [op for op in members if op.differentiable and family != "undifferentiable"]
        share = f"{len(having)} of {len(members)}"
        yield f"| {word_for(family)} | {share} | {coefficients} | {depends} |"
    yield ""
    own = ", ".join(f"`{name}`" for name in sorted(recurrences))
    yield (
        f"Recurrences of their own have {own}: their rules would lead to further ones of the same "
        "kind. The members without a series have no derivative. Of an operation whose second or "
        "third derivative is refused, as in PyTorch, series end at that order with the same error."
    )
    yield ""


def table(operations: Mapping[str, Operation]) -> Iterator[str]:
    yield "## The table"
    yield ""
    yield (
        "What a rule gives is the gradient of the input named before it, `g` being that of the "
        "result. Forward mode is the family's, unless it is `own`, or `symmetric`: then the "
        "Jacobian is symmetric, and the rule serves tangents too."
    )
    yield ""
    for family in FAMILIES:
        members = of_family(operations, family)
        yield f"### {word_for(family)} ({len(members)})"
        yield ""
        if family == "constant":
            yield "Without derivative: " + ", ".join(f"`{op.name}`" for op in members)
        else:
            yield "| operation | node | saves | gradient | forward mode |"
            yield "| --- | --- | --- | --- | --- |"
            yield from (row(op) for op in members)
        yield ""


def expression_in(function: Any) -> str | None:
    """The expression of a rule that is a lambda of one line."""
    found = definition_of(function)
    if not isinstance(found, ast.Lambda) or found.body.lineno != found.body.end_lineno:
        return None
    return ast.unparse(found.body)


def row(op: Operation) -> str:
    rules = [] if op.joint else [r for r in zip(op.inputs, op.rules, strict=True) if r[1]]
    expressions = [(name, expression_in(rule.function)) for name, rule in rules if rule]
    texts = [f"{name}: `{text}`" for name, text in expressions if text]
    gradient = ", ".join(texts) if len(texts) == len(rules) and texts else "a function"
    gradient = gradient.replace("|", "\\|")
    saves = ", ".join(op.saves) or "nothing"
    how = "own" if op.jvp else "symmetric" if op.symmetric else word_for(op.family)
    return f"| `{op.name}` | {op.node_name} | {saves} | {gradient} | {how} |"


# -- what PyTorch has besides ----------------------------------------------------------------


def pytorch_names() -> dict[str, list[str]]:
    """The functions of PyTorch, by namespace, as the file beside this one lists them."""
    found: dict[str, list[str]] = {}
    space = ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            space = line.strip("[]")
            found[space] = []
        elif not line.startswith("#"):
            found[space] += line.split()
    return found


def lacking() -> dict[str, list[str]]:
    """What PyTorch has and we do not, by namespace."""
    return {
        space: [n for n in names if not has(space, n)] for space, names in pytorch_names().items()
    }


def has(space: str, name: str) -> bool:
    place: Any = retrograd
    if space == "Tensor":
        place = retrograd.Tensor
    elif space != "torch":
        place = importlib.import_module(f"retrograd.{space}")
    return hasattr(place, name)


def missing() -> Iterator[str]:
    yield "## What is missing"
    yield ""
    yield "Functions and methods of PyTorch 2.13 that are not here yet:"
    yield ""
    apart: dict[str, list[str]] = {}
    for space, names in lacking().items():
        left = []
        for name in names:
            reason = next((why for p, why in NOT_HERE.items() if re.search(p, name)), None)
            if reason is None:
                left.append(name)
            else:
                apart.setdefault(reason, []).append(name)
        if left:
            yield f"- `{space}`: " + ", ".join(f"`{n}`" for n in left)
    yield ""
    yield "And what is left out on purpose, or belongs to other parts:"
    yield ""
    for reason, names in sorted(apart.items()):
        yield f"- {reason}: " + ", ".join(f"`{n}`" for n in sorted(set(names)))


if __name__ == "__main__":
    main()
