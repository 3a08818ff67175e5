"""Write the table of files in docs/architecture.md from the first sentence of each file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
HEAD = "| file | is for |\n|---|---|\n"


def sentence(path: Path) -> str:
    """Take the first paragraph of the docstring as one line, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return re.sub(r"\.$", "", line).replace("|", r"\|")


def rows() -> list[str]:
    """One row for each file: the top folder first, then each folder below."""
    package = ROOT / "watchdog"
    files = sorted(package.rglob("*.py"), key=lambda path: (len(path.parts), path))
    named = [(path.relative_to(package), path) for path in files if path.name != "__init__.py"]
    boot = ROOT / "serving_watchdog_boot.py"
    return [f"| `{name}` | {sentence(path)} |" for name, path in [(Path(boot.name), boot), *named]]


def main() -> None:
    """Replace what follows the table's head."""
    before = PAGE.read_text(encoding="utf-8").split(HEAD)[0]
    PAGE.write_text(before + HEAD + "\n".join(rows()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
