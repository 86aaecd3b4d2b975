"""Writes docs/pictures/page.png and page-dark.png: the page of ``retrograd explain`` at one step.

``python tests/page_screenshots.py`` needs playwright, matplotlib and Chromium. Run it again when
the page, or what it says about a step, has changed.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _viz_browser import started

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
PROGRAM = '''"""A network of two layers, one training step."""
import retrograd as torch
from retrograd import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(5, 3)
target = torch.randn(5, 1)

out = net(x)
error = ((out - target) ** 2).mean()
penalty = 0.1 * net[0].weight.pow(2).sum()
loss = error + penalty
loss.backward()
'''
STEP = "#step=12"  # tanh


def main() -> None:
    from PIL import Image  # comes with matplotlib

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "network.py").write_text(PROGRAM, encoding="utf-8")
        command = [sys.executable, "-m", "retrograd", "explain", "network.py", "--out", "page.html"]
        environment = {**os.environ, "BROWSER": "true"}
        subprocess.run(command, cwd=folder, check=True, env=environment)
        address = (Path(folder) / "page.html").as_uri() + STEP
        for browser in started():
            for name, scheme in (("page", "light"), ("page-dark", "dark")):
                page = browser.new_page(
                    viewport={"width": 1280, "height": 760}, color_scheme=scheme,
                    reduced_motion="reduce",
                )  # fmt: skip
                page.goto(address)
                page.wait_for_selector("html[data-ready]", state="attached")
                shot = Image.open(io.BytesIO(page.screenshot()))
                shot.convert("RGB").quantize(256).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
