"""Whether the packages installed beside us are the versions that we need.

Another package may have replaced one after we were installed. Asked before anything of it is
imported, so that the answer is one line and not a traceback, or a server that fails later.
"""

from __future__ import annotations

from importlib import metadata

DISTRIBUTION = "jupyter-collaboration-mcp"


def check_requirements() -> None:
    """Refuse to go on with other versions.

    Raises:
        ValueError: What is wrong, in one line.
    """
    if (problem := unmet_requirements()) is not None:
        raise ValueError(problem)


def unmet_requirements() -> str | None:
    """What the metadata of this package demands and is not installed, and how to fix it.

    Returns:
        One line; None if all is well.
    """
    try:
        required = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        return None  # a checkout that nobody installed demands nothing
    from packaging.requirements import Requirement

    problems, wanted = [], []
    for line in required:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        # The lower bound first, as people write it.
        bounds = sorted(map(str, requirement.specifier), key=lambda bound: bound.startswith("<"))
        need = requirement.name + ",".join(bounds)
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            problems.append(f"{need} is needed and not installed")
        else:
            if requirement.specifier.contains(installed, prereleases=True):
                continue
            problems.append(f"{requirement.name} {installed} is installed and {need} is needed")
        wanted.append(f'"{need}"')
    if not problems:
        return None
    return (
        f"{'; '.join(problems)}. Run `pip install {' '.join(wanted)}` in this environment; if "
        f"another package needs what is there, use the command {DISTRIBUTION} from an environment "
        f"of its own (pipx, uvx)."
    )
