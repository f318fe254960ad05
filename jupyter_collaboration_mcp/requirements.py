"""Whether the packages installed beside us are the versions that we need.

Another package may have replaced one after we were installed. Checked before anything of it is
imported, so that the answer is one line and not a traceback, or a server that fails later.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "jupyter-collaboration-mcp"

#: Whatever our metadata says, which a checkout may lack or have from another day. With newer ones
#: an edit is acknowledged and never saved.
BOUNDS = ("jupyter-collaboration<5.1", "jupyter-server-ydoc<3.1")


def check_requirements() -> None:
    """Refuse to go on with other versions.

    Raises:
        ValueError: What is wrong, in one line.
    """
    if (problem := unmet_requirements()) is not None:
        raise ValueError(problem)


def unmet_requirements() -> str | None:
    """What this package requires and is not installed, and how to fix it.

    Returns:
        One line; None if all is well.
    """
    problems, remedies = [], []
    for requirement, installed in _unmet():
        # The lower bound first, as people write it.
        bounds = sorted(map(str, requirement.specifier), key=lambda bound: bound.startswith("<"))
        need = requirement.name + ",".join(bounds)
        if installed is None:
            problems.append(f"{need} is needed and not installed")
        else:
            problems.append(f"{requirement.name} {installed} is installed and {need} is needed")
        remedies.append(f'"{need}"')
    if not problems:
        return None
    return (
        f"{'; '.join(problems)}. Run `pip install {' '.join(remedies)}` in this environment; if "
        f"another package needs what is there, use the command {DISTRIBUTION} from an environment "
        f"of its own (pipx, uvx)."
    )


def _unmet() -> Iterator[tuple[Requirement, str | None]]:
    """Each requirement that is not met, and the version that is installed."""
    from packaging.requirements import Requirement

    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        required = []  # a checkout that nobody installed
    reported = set()
    for line in required:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        installed = _installed(requirement)
        if installed is None or not _fits(requirement, installed):
            reported.add(requirement.name)
            yield requirement, installed
    for line in BOUNDS:
        requirement = Requirement(line)
        installed = _installed(requirement)
        if requirement.name in reported or installed is None or _fits(requirement, installed):
            continue
        yield requirement, installed


def _installed(requirement: Requirement) -> str | None:
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def _fits(requirement: Requirement, installed: str) -> bool:
    # A pre-release of 5.1 does not fit <5.1 either.
    return requirement.specifier.contains(installed, prereleases=True)
