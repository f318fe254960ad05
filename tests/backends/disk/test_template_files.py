"""Files of templates: ours, those of a site, and those that are broken."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.disk.template_files import BUILT_IN, TemplateFiles
from jupyter_collaboration_mcp.errors import InvalidArgument

pytestmark = pytest.mark.anyio

NAMES = [
    "beam_search",
    "eda",
    "graph_of_thought",
    "mcts",
    "model_evaluation",
    "ooda_loop",
    "orchestration_suggest",
    "report",
    "tree_of_thought",
    "ulysses_protocol",
]


async def test_each_of_our_templates_has_a_title_a_purpose_and_parameters() -> None:
    found = await TemplateFiles().all()
    assert [each.name for each in found] == NAMES
    for each in found:
        assert each.title != each.name
        assert 20 < len(each.purpose) < 300
        assert each.parameters


async def test_a_site_adds_templates_and_replaces_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "eda.py").write_text("# %% [markdown]\n# # Ours\n\n# %%\n1\n")
    (tmp_path / "weekly.py").write_text("# %% [markdown]\n# # Weekly\n\n# %%\n1\n")
    (tmp_path / "mcts.py").write_text('# %% tags=["parameters"]\nx = open\n')  # broken: ours counts
    (tmp_path / "no name.py").write_text("1")
    (tmp_path / "large.py").write_text("#" * 1_000_001)
    (tmp_path / "latin.py").write_bytes(b"# \xe9")
    (tmp_path / "notes.md").write_text("# Not a template")
    files = TemplateFiles(tmp_path)
    assert not files.lasting
    titles = {each.name: each.title for each in await files.all()}
    assert titles["eda"] == "Ours"
    assert titles["weekly"] == "Weekly"
    assert titles["mcts"] == "Monte Carlo tree search"
    assert set(titles) == {*NAMES, "weekly"}
    for broken in ("mcts.py is not used", "large.py is not used", "latin.py is not used"):
        assert broken in caplog.text
    (tmp_path / "weekly.py").unlink()  # while the server runs
    assert await files.find("weekly") is None


async def test_a_directory_that_is_not_there_leaves_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = TemplateFiles(tmp_path / "none", logging.getLogger("a.test"))
    assert [each.name for each in await files.all()] == NAMES
    assert "Cannot read the templates in" in caplog.text


async def test_an_unknown_template_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("1")
    files = TemplateFiles()
    with pytest.raises(InvalidArgument, match="There is no template 'edda'") as refused:
        await files.make("edda", {})
    assert "eda" in str(refused.value.next_step)
    assert await files.find("../secret") is None
    assert files.lasting
    assert (BUILT_IN / "eda.py").exists()
