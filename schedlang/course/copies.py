"""The files that ``python -m schedlang course`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedlang.errors import BuildError, explain


def write(folder: Path, files: Mapping[str, str], force: bool) -> list[Path]:
    """Write texts to files below ``folder``, by their paths; return the paths that were written.

    A file that has its text already stays as it is. Raise :class:`~schedlang.errors.BuildError`,
    before anything is written, if another one is there and ``force`` is not set, and where the
    system refuses.
    """
    paths = {folder / name: text for name, text in files.items()}
    try:
        there = {path: path.read_text("utf-8") for path in paths if path.exists()}
        new = {path: text for path, text in paths.items() if there.get(path) != text}
        changed = [path for path in new if path in there]
        if changed and not force:
            raise BuildError(
                explain(
                    f"course {folder}",
                    f"{_listed(changed)} would be overwritten, and may have your answers",
                    "Give another folder, or --force to overwrite.",
                )
            )
        for path, text in new.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BuildError(f"course {folder}: {why}") from None
    return list(new)


def _listed(paths: list[Path]) -> str:
    names = ", ".join(path.name for path in paths[:3])
    return names if len(paths) <= 3 else f"{names} and {len(paths) - 3} more"
