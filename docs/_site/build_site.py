"""Builds the documentation site: ``python docs/_site/build_site.py [FOLDER]``.

The pages of ``docs/`` and those that are generated are gathered in a folder, of which Sphinx makes
the site. A warning, such as a link that leads nowhere, is an error. ``--reference fft,func`` builds
the reference of these namespaces only, which saves time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "src")]
# Documents outside of docs/ that are pages of the site, too.
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}  # fmt: skip
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")


def gather(sources: Path, only: list[str]) -> None:
    """Write what Sphinx reads."""
    from site_passes import with_passes
    from site_reference import pages

    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "docs", sources, ignore=shutil.ignore_patterns("_site", "build"))
    for document, name in OUTSIDE.items():
        text = (ROOT / document).read_text(encoding="utf-8")
        text = LINK.sub(lambda m: re.sub(r"^(\.\./)?docs/", "", m[1]) + (m[2] or ""), text)
        (sources / name).write_text(text, encoding="utf-8")
    passes = sources / "passes"
    for path in sources.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        text = with_passes(_redirected(text, path.relative_to(sources)), path.stem, passes)
        path.write_text(text, encoding="utf-8")
    (sources / "reference").mkdir()
    for page in pages(only):
        (sources / "reference" / page.path).write_text(page.text, encoding="utf-8")


def _redirected(text: str, path: Path) -> str:
    """With links to documents outside of docs/ leading to their pages."""
    up = "../" * (len(path.parts) - 1)

    def redirected(match: re.Match[str]) -> str:
        outside = match[1].removeprefix(f"{up}../")
        if outside.startswith("tests/confusions"):
            anchor = f"#{Path(outside).stem}" if outside.endswith(".py") else ""
            return f"{up}theory/confusions.md{anchor}"
        return up + OUTSIDE[outside] + (match[2] or "") if outside in OUTSIDE else match[0]

    return LINK.sub(redirected, text)


def main() -> int:
    from sphinx.cmd.build import build_main

    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("folder", nargs="?", default=ROOT / "build" / "site", type=Path)
    parser.add_argument("--reference", default="", help="namespaces, with commas; default: all")
    options = parser.parse_args()
    sources = options.folder.with_name(f"{options.folder.name}-sources")
    gather(sources, [name for name in options.reference.split(",") if name])
    arguments = ["-W", "-j", "auto", "--keep-going", "-q", "-b", "html", "-c", str(HERE), "-d",
                 str(sources / ".doctrees"), str(sources), str(options.folder)]  # fmt: skip
    status = build_main(arguments)
    shutil.copytree(sources / "passes", options.folder / "passes", dirs_exist_ok=True)
    if status == 0:
        print(options.folder / "index.html")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
