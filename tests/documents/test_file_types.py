"""Which files a search means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.file_types import at_path, endings, is_text, of_type, part

WORDS = ["notebook", "file", "directory", "folder", "text", "markdown", "python", "image", "csv"]

NAMES = st.text("aB.z/İΣßé-", max_size=8)


@pytest.mark.parametrize(
    ("wanted", "path", "kind", "fits"),
    [
        (None, "a.bin", "file", True),
        ("", "d", "directory", True),
        ("notebook", "a.ipynb", "notebook", True),
        ("notebook", "a.ipynb", "file", False),
        ("Notebook", "a.ipynb", "notebook", True),
        ("file", "a.md", "file", True),
        ("file", "a.ipynb", "notebook", False),
        ("directory", "d.md", "directory", True),
        ("folder", "d", "directory", True),
        ("folder", "d", "file", False),
        ("markdown", "A.MD", "file", True),
        ("markdown", "a.markdown", "file", True),
        ("markdown", "d.md", "directory", False),
        ("python", "a.pyi", "file", True),
        ("python", "a.pyx", "file", False),
        ("csv", "data/a.CSV", "file", True),
        (".csv", "a.csv", "file", True),
        ("*.csv", "a.csv", "file", True),
        ("CSV", "acsv", "file", False),
        ("tar.gz", "a.tar.gz", "file", True),
        ("image", "a.SVG", "file", True),
        ("text", "a.toml", "file", True),
        ("text", "Makefile", "file", True),
        ("text", "a.png", "file", False),
        ("text", "a.ipynb", "notebook", False),
    ],
)
def test_a_type_is_a_kind_a_word_or_an_extension(
    wanted: str | None, path: str, kind: str, fits: bool
) -> None:
    assert of_type(wanted)(path, kind) is fits


@pytest.mark.parametrize(
    ("wanted", "path", "fits"),
    [
        ("", "anything", True),
        ("REPORT", "2024/my-report.md", True),
        ("2024/my", "2024/my-report.md", True),
        ("2024/r", "2024/my-report.md", False),
        ("*.md", "deep/in/a.MD", True),
        ("a*.md", "deep/in/ba.md", False),
        ("deep/*.md", "deep/in/a.md", True),
        ("deep/*.md", "other/deep/a.md", False),
        ("**/a.md", "deep/in/a.md", True),
        ("**/a.md", "a.md", True),
        ("**/a.md", "ba.md", False),
        ("a?.md", "ab.md", True),
        ("[ab].md", "b.md", True),
        ("a.md", "[a.md", True),
        ("100%", "100%.txt", True),
    ],
)
def test_a_path_matches_a_part_of_it_or_a_glob(wanted: str, path: str, fits: bool) -> None:
    assert at_path(wanted)(path, "file") is fits


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.txt", True),
        ("A.TXT", True),
        ("a.json", True),
        ("Dockerfile", True),
        ("src/LICENSE", True),
        ("a.env", True),
        ("a.zip", False),
        ("a.pdf", False),
        ("no-ending", False),
    ],
)
def test_text_files_are_recognized_by_name(path: str, text: bool) -> None:
    assert is_text(path) is text


@given(wanted=st.sampled_from(WORDS) | st.text("ab.", min_size=1, max_size=4), path=NAMES)
def test_every_file_of_a_type_has_one_of_its_endings(wanted: str, path: str) -> None:
    if of_type(wanted)(path, "file") and (wanted_endings := endings(wanted)):
        assert path.rpartition("/")[2].lower().endswith(wanted_endings)


@given(wanted=NAMES, path=NAMES)
def test_every_matching_path_contains_the_part(wanted: str, path: str) -> None:
    if at_path(wanted)(path, "file"):
        assert part(wanted) in path.lower()
    elif part(wanted):
        assert part(wanted) not in path.lower()
