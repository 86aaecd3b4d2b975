"""Writes docs/pictures/page.png and page-dark.png, the page of ``retrograd explain`` at one step,
and profile.png, the timeline of ``retrograd profile``.

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
TRAINED = PROGRAM.replace("out = net(x)", """\
net = nn.Sequential(nn.Linear(200, 300), nn.Tanh(), nn.Linear(300, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, target = torch.randn(500, 200), torch.randn(500, 1)
for _ in range(4):
    error = ((net(x) - target) ** 2).mean()
    error.backward()
    optimizer.step()
out = net(x)""")
SHOTS = (
    ("explain", PROGRAM, STEP, "page", "light"),
    ("explain", PROGRAM, STEP, "page-dark", "dark"),
    ("profile", TRAINED, "#timeline", "profile", "light"),
)


def main() -> None:
    from PIL import Image  # comes with matplotlib

    for command, program, place, name, scheme in SHOTS:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "network.py").write_text(program, encoding="utf-8")
            arguments = [command, "network.py", "--out", "page.html"]
            arguments += ["--memory"] * (command == "profile")
            run = [sys.executable, "-m", "retrograd", *arguments]
            subprocess.run(run, cwd=folder, check=True, env={**os.environ, "BROWSER": "true"})
            for browser in started():
                page = browser.new_page(
                    viewport={"width": 1280, "height": 760}, color_scheme=scheme,
                    reduced_motion="reduce",
                )  # fmt: skip
                page.goto((Path(folder) / "page.html").as_uri() + place)
                page.wait_for_selector("html[data-ready]", state="attached")
                shot = Image.open(io.BytesIO(page.screenshot()))
                shot.convert("RGB").quantize(256).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
