"""What an agent may do: levels, and paths that configuration allows or denies."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from urllib.parse import unquote

from ..errors import InvalidArgument, PathRefused, PermissionRefused
from ..remedies import Intent


class Level(IntEnum):
    """Each level includes those before it."""

    read = 1
    write = 2
    execute = 3
    admin = 4

    @classmethod
    def named(cls, name: str) -> Level:
        try:
            return cls[name.strip().lower()]
        except KeyError:
            raise InvalidArgument(
                f"There is no permission level {name!r}.",
                f"Use one of {', '.join(level.name for level in cls)}.",
            ) from None


@dataclass(frozen=True, slots=True)
class PathRules:
    """Globs of Jupyter paths; `denied` takes precedence over `allowed`."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    source: str = "This server's configuration"
    """Whose rules they are, for a refusal."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.allowed or self.denied)

    def check(self, path: str, *target: str) -> None:
        """Refuse a path that configuration keeps from agents.

        Args:
            target: What the path leads to, if it is a link.
        """
        if self and not all(map(self.visible, (path, *target))):
            raise self._withheld(path)

    def check_folder(self, path: str, target: str) -> None:
        """Refuse to look into a folder. One that is not allowed may contain what is.

        Args:
            path: Perhaps only the beginning of its name.
        """
        if not all(self._may_enter(each, _may_begin) for each in (path, target)):
            raise self._withheld(path)

    def may_enter(self, folder: str) -> bool:
        """Whether agents may know about a folder: it may contain what they may know about."""
        return self._may_enter(folder, _may_contain)

    def _may_enter(self, folder: str, fits: Callable[[str, str], bool]) -> bool:
        if self.denies(folder):
            return False
        return not self.allowed or any(fits(folder, glob) for glob in self.allowed)

    def denies(self, path: str) -> bool:
        """Whether a path is denied, even if it is also allowed."""
        return _fits(path, self.denied)

    def visible(self, path: str) -> bool:
        """Whether agents may know about a path."""
        return not self.denies(path) and (not self.allowed or _fits(path, self.allowed))

    def _withheld(self, path: str) -> PermissionRefused:
        return PermissionRefused(
            f"{self.source} keeps {path!r} from agents.",
            "Work on another path, or ask the person to allow this one.",
            path=path,
        )


def _may_contain(folder: str, glob: str) -> bool:
    """Whether a folder fits a glob, or some path below it may."""
    if not folder or fnmatch.fnmatchcase(folder, glob):
        return True
    below, plain = f"{folder}/", _plain(glob)
    return below.startswith(plain) or plain.startswith(below)


def _may_begin(beginning: str, glob: str) -> bool:
    """The same, where the name of the folder may go on."""
    return _may_contain(beginning, glob) or _plain(glob).startswith(beginning)


def _plain(glob: str) -> str:
    """What every path that fits a glob begins with."""
    return re.split(r"[*?[]", glob, maxsplit=1)[0]


def _fits(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, glob) for glob in globs)


#: The most characters of a path, and folders in it: each folder is looked up.
_LONGEST_PATH, _DEEPEST_PATH = 1_000, 50

#: Paths of which it is remembered how they are normalized.
_REMEMBERED = 500


#: Everything is allowed.
NO_RULES = PathRules()


@lru_cache(_REMEMBERED)
def clean_path(path: str) -> str:
    """Normalize a Jupyter path relative to the server's root.

    Raises:
        PathRefused: It is not a path, or leads out of the root, percent-encoded or not.
    """
    if len(path) > _LONGEST_PATH:
        raise _too_long(path)
    forms = (path, unquote(path), unquote(unquote(path)))
    if (wrong := next(filter(None, map(_wrong, forms)), None)) is not None:
        raise PathRefused(
            f"{path!r} {wrong}.",
            Intent.USE_LISTED_PATH,
            path=path.encode(errors="backslashreplace").decode(),  # so that an answer can hold it
        )
    cleaned = posixpath.normpath(path.strip("/"))
    if cleaned.count("/") > _DEEPEST_PATH:
        raise _too_long(path)
    return "" if cleaned == "." else cleaned


def _too_long(path: str) -> PathRefused:
    return PathRefused(
        f"{path[:100]!r}... is too long for a path: at most {_LONGEST_PATH:,} characters and "
        f"{_DEEPEST_PATH} folders are allowed. Nothing was done.",
        "Give a shorter path.",
    )


def _wrong(path: str) -> str | None:
    """What is wrong with a path; None if nothing is."""
    if "\0" in path:
        return "has a NUL character in it, which no path can have"
    if any("\ud800" <= character <= "\udfff" for character in path):
        return "has half of a surrogate pair in it, which no path can have"
    slashed = path.replace("\\", "/")
    if ".." not in slashed.split("/"):
        return None
    if posixpath.normpath(slashed.strip("/")).startswith(".."):
        return "leads out of the server's root directory"
    return "has '..' in it, which is not followed"
