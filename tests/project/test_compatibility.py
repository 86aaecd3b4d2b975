"""Third-party packages that import torch print with this package what they print with PyTorch.

What PyTorch prints is kept in tests/compatibility_expected.json, written by tests/compatibility.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import compatibility
import pytest

EXPECTED = json.loads(compatibility.EXPECTED.read_text(encoding="utf-8"))
# Left to the script: one model of torchvision uses most of what the others do.
SLOW = {"resnet18", "densenet121", "squeezenet1_1", "shufflenet_v2_x0_5", "convnext_tiny", "swin_t"}


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_package(name: str, tmp_path: Path) -> None:
    try:
        compatibility.install(tmp_path, name)
    except RuntimeError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    programs = compatibility.PACKAGES[name].programs
    programs = {title: programs[title] for title in EXPECTED[name] if title not in SLOW}
    found = compatibility.answers(tmp_path, programs, here=True)
    assert found.keys() == programs.keys(), found
    for title, (kind, said) in found.items():
        assert kind == "printed", f"{title}: {said}"
        expected = "\n".join(EXPECTED[name][title]) + "\n"
        assert compatibility.agree(said, expected), f"{title}:\n{said}\ninstead of\n{expected}"
