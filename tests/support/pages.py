"""The code blocks of README and the pages of docs/.

A comment `<!-- needs: NAME ... -->` before a block says what it cannot run without: modules, or `gpu`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the number of its first line, and what it needs."""

    page: Path
    line: int
    language: str
    needs: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


FENCED = re.compile(
    r"(?:^<!-- needs:(?P<needs>.*)-->\n)?^```(?P<language>.*)\n(?P<text>(?:(?!```).*\n)*)```$", re.MULTILINE
)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            tuple(re.findall(r"\w+", found["needs"] or "")),
            found["text"],
        )
        for found in FENCED.finditer(text)
    ]
