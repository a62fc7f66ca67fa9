"""Count turns of phrase that stop a native reader: ``python -m tests.wording [--list]``.

A count is no judgement of style, and no test asserts one: .ci/run prints the table, so that a page
that slips back shows. ``--list`` prints each place.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
# where a sentence may begin: a line's text after comment signs and bullets, or after a sentence
START = r"(?:^\W*|[.:;!?] )"
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "that of, those of": re.compile(r"\b(?:that|those) of\b", re.I),
    'a sentence that opens with "Of"': re.compile(START + r"Of [a-z]"),
    "is no X": re.compile(r"(?<!there )\b(?:is|are|was|were) no (?!longer|more\b)\w", re.I),
    "has not": re.compile(r"\b(?:has|have|had) not\b", re.I),
    "a participle first": re.compile(START + r"(?:Not [a-z]+|[A-Z][a-z]+)ed (?:is|are|was|were)\b"),
    "a trailing as ... does": re.compile(r"\bas [\w`' ]{1,40} (?:do|does|has it|have it)[.;]"),
}
# Python is searched in its docstrings, comments and messages, which no other text looks like
PLACES: Mapping[str, tuple[str, ...]] = {
    "package": ("schedlang/**/*.py", "schedlang/**/*.pyi"),
    "docs": ("README.md", "CONTRIBUTING.md", "docs/**/*.md"),
    "course": ("examples/**/*.ipynb", "examples/**/*.md", "examples/*.py"),
}


def matches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with a match, once for each."""
    for number, line in enumerate(text.split("\n"), 1):
        for _ in pattern.finditer(line):
            yield number, line.strip()


def files(place: str) -> list[Path]:
    """Return the files of a place, in order."""
    paths = {path for pattern in PLACES[place] for path in ROOT.glob(pattern)}
    built = ROOT / "schedlang" / "site"
    return sorted(path for path in paths if path.is_file() and built not in path.parents)


def main() -> None:
    """Print how often each pattern stands in each place."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--list", action="store_true", help="print each place")
    chosen = parser.parse_args()
    texts = {place: {path: path.read_text("utf-8") for path in files(place)} for place in PLACES}
    print(f"{'':34}" + "".join(f"{place:>9}" for place in PLACES))
    for name, pattern in PATTERNS.items():
        counts = []
        for place in PLACES:
            lines = [
                (path, number, line)
                for path, text in texts[place].items()
                for number, line in matches(text, pattern)
            ]
            counts.append(len(lines))
            if chosen.list:
                for path, number, line in lines:
                    print(f"{path.relative_to(ROOT)}:{number}: {name}: {line[:100]}")
        print(f"{name:34}" + "".join(f"{count:9}" for count in counts))


if __name__ == "__main__":
    main()
