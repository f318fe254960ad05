"""The panel as it is packaged: small, complete, and the same everywhere."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from jupyter_collaboration_mcp import __version__
from tests.harness.jupyter import REPOSITORY

BUILT = REPOSITORY / "jupyter_collaboration_mcp" / "labextension"

#: What may be bundled into a package under the BSD licence.
LICENCES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Apache-2.0"}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REPOSITORY / name).read_text())
    return found


def test_the_panel_has_the_version_of_the_package() -> None:
    assert read("package.json")["version"] == __version__


def test_all_javascript_together_stays_small() -> None:
    sizes = {file.name: file.stat().st_size for file in (BUILT / "static").glob("*.js")}
    assert 0 < sum(sizes.values()) < 150_000, sizes
    entry = read("jupyter_collaboration_mcp/labextension/package.json")["jupyterlab"]["_build"]
    assert sizes[entry["load"].removeprefix("static/")] < 20_000


def test_what_is_bundled_may_be() -> None:
    licences = json.loads((BUILT / "static" / "third-party-licenses.json").read_text())
    found = {each["name"]: each["licenseId"] for each in licences["packages"]}
    assert set(found) == {"@codemirror/merge", "css-loader", "style-loader"}
    assert set(found.values()) <= LICENCES


def test_the_lock_names_no_hosts() -> None:
    lock = (REPOSITORY / "yarn.lock").read_text()
    assert not re.findall(r"\S*(?:://|__archiveUrl)\S*", lock)


def test_a_wheel_and_a_source_distribution_have_what_the_build_needs() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        targets = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]
    hook = (REPOSITORY / "hatch_build.py").read_text()
    sources = set(re.findall(r'"([^"]+)"', hook[hook.index("SOURCES") : hook.index("]\n")]))
    included = {name.removeprefix("/") for name in targets["sdist"]["include"]}
    assert sources | {"hatch_build.py", "install.json"} <= included
    assert all((REPOSITORY / name).exists() for name in included)
    assert read("install.json")["packageName"] == "jupyter-collaboration-mcp"
    assert read("package.json")["jupyterlab"]["outputDir"] in hook
