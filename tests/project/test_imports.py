"""The layers of the package: imports point down, and docs/architecture.md draws them.

``LAYERS`` is the only list. ``python tests/project/test_imports.py`` writes the drawing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "retrograd"
PAGE = ROOT / "docs" / "architecture.md"

SAME = "(as above)"  # part of the layer above it in the drawing
# Top to bottom. A module may import modules of its own layer and of those below.
LAYERS = (
    ("__main__.py", "the command line"),
    ("tour/ training/", "its commands: the tour, and models to train"),
    ("distributions/", "probability distributions"),
    ("pipeline/ profiler/ viz/", "pipeline parallelism; profiling; pictures"),
    ("array_api/", "the array API standard's namespace"),
    ("numpy_protocols/", "NumPy functions on tensors"),
    ("_alias.py _scripts.py", "running programs that import torch"),
    ("_aten.py as_torch.py", SAME),
    ("__init__.py", "the public package: `import retrograd`"),
    ("integrate/ optimize/", "solvers: differential equations, minima, roots, fits"),
    ("interpolate.py", SAME),
    ("devices/", "tensors on GPUs and other devices, computed by XLA"),
    ("_dynamo.py compiler/", "compiling functions and their derivatives"),
    ("files/ optim/", "saving and loading; optimizers"),
    ("serialization.py", SAME),
    ("jit.py testing/", "PyTorch names, for compatibility"),
    ("_higher_order_ops.py", SAME),
    ("amp/ cuda/", "mixed precision; queries about GPUs"),
    ("mps.py xpu.py", SAME),
    ("func/ nn/ utils/", "transforms; modules and layers; checkpointing and data loading"),
    ("distributed/", "communication between processes, over MPI"),
    ("fft.py linalg.py", "PyTorch's namespaces: names defined elsewhere"),
    ("random.py special.py", SAME),
    ("_scipy_special.py", SAME),
    ("sparse/", SAME),
    ("accelerator.py backends/", SAME),
    ("functional.py hub.py", SAME),
    ("multiprocessing.py", SAME),
    ("signal/ types.py version.py", SAME),
    ("_C.py overrides.py", SAME),
    ("__config__.py _utils.py", SAME),
    ("storage.py", SAME),
    ("masked.py quasirandom.py", SAME),
    ("_subclasses/ export.py fx/", SAME),
    ("nested.py onnx.py", SAME),
    ("_custom_ops.py library.py", "declaring custom operations"),
    ("tensor/", "the Tensor class: methods, indexing, creation"),
    ("autograd/", "the graph, the backward pass, Function, modes, checks"),
    ("ops/", "the table: every operation with its derivative"),
    ("arrays/", "raw arrays: the only layer that imports NumPy and SciPy"),
    ("_modes.py _source.py", "modes per thread; source lines; tracebacks"),
    ("_tracebacks.py", SAME),
    ("_errors.py _later.py", "command-line errors; lazily loaded names"),
    ("_records.py", "classes of named values"),
)
BLOCK = re.compile(r"(## Layers\n.*?^```\n)(.*?)(^```$)", re.M | re.S)


def heights() -> dict[str, int]:
    """The number of the layer that each part of the package is in, counted from the top."""
    numbers, number = {}, 0
    for parts, description in LAYERS:
        number += description != SAME
        numbers.update({part.strip("/").removesuffix(".py"): number for part in parts.split()})
    return numbers


def drawing() -> str:
    width = max(len(parts) for parts, _ in LAYERS) + 2
    return "".join(f"{parts:{width}}{text}\n" for parts, text in LAYERS)


def imported(source: str, parts: set[str]) -> Iterator[str]:
    """The parts of the package that a module imports, anywhere in it. ``__init__`` stands for the
    package itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "retrograd":
            yield from (a.name if a.name in parts else "__init__" for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from _part(node.module or "")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _part(alias.name)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            first = name.values[0] if isinstance(name, ast.JoinedStr) else name
            if isinstance(first, ast.Constant) and first.value != "retrograd.":
                yield from _part(str(first.value))


def _part(module: str) -> Iterator[str]:
    package, *rest = module.split(".")
    if package == "retrograd":
        yield rest[0] if rest else "__init__"


def test_every_part_of_the_package_is_in_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__pycache__", "py"} == set(heights())


def test_imports_point_down() -> None:
    height = heights()
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        names = set(imported(path.read_text(encoding="utf-8"), set(height)))
        above = [name for name in names if height[name] < height[part]]
        assert not above, f"{path.relative_to(PACKAGE)} imports {above} from a layer above"


def test_all_forms_of_import_are_seen() -> None:
    for source, expected in {
        "import retrograd": ["__init__"],
        "import retrograd as torch": ["__init__"],
        "import retrograd.nn.linear": ["nn"],
        "from retrograd import nn, zeros": ["nn", "__init__"],
        "from retrograd.nn import init": ["nn"],
        "def f():\n    from retrograd.viz import draw": ["viz"],
        "importlib.import_module('retrograd')": ["__init__"],
        "importlib.import_module('retrograd.files')": ["files"],
        "importlib.import_module(f'retrograd.nn.{name}')": ["nn"],
        "import numpy": [],
    }.items():
        assert list(imported(source, set(heights()))) == expected, source


def test_tests_can_be_collected_without_pytorch_and_jax() -> None:
    """They are optional, so modules of tests import them in the tests that need them."""
    paths = [path for folder in ("tests", "tests/*") for path in ROOT.glob(f"{folder}/*.py")]
    programs = ("confusions", "typing")  # which are run, not imported
    modules = {path.stem: path for path in paths if path.parent.name not in programs}
    reached = [name for name in modules if name.startswith(("test_", "conftest"))]
    for name in reached:
        for node in ast.parse(modules[name].read_text(encoding="utf-8")).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            packages = {name.split(".")[0] for name in names}
            optional = packages & {"torch", "jax", "jaxlib", "pandas", "sklearn"}
            assert not optional, f"{modules[name].relative_to(ROOT)} imports {optional}"
            reached += [name for name in packages if name in modules and name not in reached]


def test_only_arrays_imports_numpy_and_scipy() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "arrays":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^\s*(import|from) (numpy|scipy)", text, re.M), path.name


def test_the_drawing_shows_the_layers() -> None:
    block = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert block is not None
    assert block[2] == drawing(), "run python tests/project/test_imports.py"


if __name__ == "__main__":
    page = BLOCK.sub(lambda m: m[1] + drawing() + m[3], PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
