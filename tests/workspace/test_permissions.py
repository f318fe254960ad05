"""Levels, path rules, and paths in their one normal form."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument, PathRefused, PermissionRefused
from jupyter_collaboration_mcp.workspace.permissions import Level, PathRules, clean_path

RULES = PathRules(allowed=["work/*", "notes.md"], denied=["work/secret*", "keys.txt"])


def test_each_level_includes_those_before_it() -> None:
    assert Level.read < Level.write < Level.execute < Level.admin
    assert [*Level] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["write", "Write", " WRITE "])
def test_a_level_is_known_by_its_name(name: str) -> None:
    assert Level.named(name) is Level.write


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="no permission level 'owner'") as caught:
        Level.named("owner")
    assert caught.value.next_step == "Use one of read, write, execute, admin."


class TestRules:
    @pytest.mark.parametrize(
        ("rules", "are_there"),
        [
            (PathRules(), False),
            (PathRules(allowed=["*"]), True),
            (PathRules(denied=["*"]), True),
            (RULES, True),
        ],
    )
    def test_rules_are_true_if_there_are_any(self, rules: PathRules, are_there: bool) -> None:
        assert bool(rules) is are_there

    @pytest.mark.parametrize(
        ("path", "visible", "denied"),
        [
            ("work/a.ipynb", True, False),
            ("work/deep/a.ipynb", True, False),
            ("notes.md", True, False),
            ("work", False, False),
            ("other.md", False, False),
            ("Work/a.ipynb", False, False),
            ("work/secret.txt", False, True),
            ("work/Secret.txt", True, False),
            ("keys.txt", False, True),
        ],
    )
    def test_a_path_is_visible_if_it_is_allowed_and_not_denied(
        self, path: str, visible: bool, denied: bool
    ) -> None:
        assert RULES.visible(path) is visible
        assert RULES.denies(path) is denied

    @pytest.mark.parametrize("path", ["", "anything", "a/b/c"])
    def test_everything_is_visible_without_rules(self, path: str) -> None:
        assert PathRules().visible(path)
        assert not PathRules().denies(path)
        PathRules().check(path, "elsewhere")
        PathRules().check_folder(path, "elsewhere")

    def test_everything_not_denied_is_visible_if_no_path_is_allowed_explicitly(self) -> None:
        rules = PathRules(denied=["secret*"])
        assert rules.visible("a.md")
        assert not rules.visible("secret.md")

    @pytest.mark.parametrize(
        "paths",
        [
            ("work/a", "work/b"),
            ("work/a",),
            ("work/a", "work/b", "notes.md"),
        ],
    )
    def test_a_path_passes_with_all_its_targets(self, paths: tuple[str, ...]) -> None:
        RULES.check(*paths)

    @pytest.mark.parametrize(
        "paths",
        [
            ("elsewhere",),
            ("elsewhere", "work/b"),
            ("work/a", "elsewhere"),
            ("work/a", "work/secret"),
            ("work/a", "work/b", "keys.txt"),
        ],
    )
    def test_a_path_is_refused_if_it_or_its_target_is_denied(self, paths: tuple[str, ...]) -> None:
        with pytest.raises(PermissionRefused, match=r"keeps .* from agents") as caught:
            RULES.check(*paths)
        assert caught.value.detail["path"] == paths[0]
        assert repr(paths[0]) in caught.value.happened

    @pytest.mark.parametrize(
        ("path", "target"), [("keys.txt", "work/a"), ("work/a", "keys.txt"), ("keys.txt",) * 2]
    )
    def test_a_folder_is_refused_if_it_or_its_target_is_denied(
        self, path: str, target: str
    ) -> None:
        with pytest.raises(PermissionRefused) as caught:
            RULES.check_folder(path, target)
        assert caught.value.detail["path"] == path

    def test_a_folder_that_is_not_allowed_may_contain_allowed_paths(self) -> None:
        for folder in ("", "work", "work/deep", "wor"):  # this may be the beginning of a name
            RULES.check_folder(folder, "work")
        assert RULES.may_enter("work/deep")
        assert not RULES.may_enter("wor")

    @pytest.mark.parametrize("folder", ["elsewhere", "works", "works/deep", "work2"])
    def test_a_folder_that_can_contain_nothing_allowed_is_not_known(self, folder: str) -> None:
        with pytest.raises(PermissionRefused):
            RULES.check_folder(folder, "work")
        with pytest.raises(PermissionRefused):
            RULES.check_folder("work", folder)
        assert not RULES.may_enter(folder)

    @pytest.mark.parametrize("glob", ["*.md", "a*/x", "?/a", "[a-b]/x", "ab/*", "a*"])
    def test_a_folder_that_a_glob_may_lead_to_is_known(self, glob: str) -> None:
        rules = PathRules(allowed=[glob])
        rules.check_folder("ab", "ab")
        assert rules.may_enter("ab")


class TestCleanPath:
    @pytest.mark.parametrize(
        ("given", "cleaned"),
        [
            ("a.ipynb", "a.ipynb"),
            ("a/b c/d.md", "a/b c/d.md"),
            ("/a//b/./c/", "a/b/c"),
            ("./a", "a"),
            ("", ""),
            (".", ""),
            ("/", ""),
            ("./", ""),
            ("a..b/...", "a..b/..."),
            ("100%", "100%"),
            ("a%20b", "a%20b"),
            ("%25252e%25252e/a", "%25252e%25252e/a"),
            ("a\\b", "a\\b"),
            ("\ud7ff\ue000", "\ud7ff\ue000"),
        ],
    )
    def test_a_path_has_one_normal_form(self, given: str, cleaned: str) -> None:
        assert clean_path(given) == cleaned
        assert clean_path(cleaned) == cleaned

    @pytest.mark.parametrize(
        "given",
        [
            "..",
            "../a",
            "/../a",
            "a/../../b",
            "..\\a",
            "%2e%2e/a",
            "%252e%252e%252fa",
            "a/..%2f..%2fb",
        ],
    )
    def test_a_path_cannot_leave_the_root(self, given: str) -> None:
        with pytest.raises(PathRefused, match="leads out of the server's root directory") as caught:
            clean_path(given)
        assert caught.value.detail["path"] == given

    @pytest.mark.parametrize("given", ["a/../b", "a/..", "a\\..\\b", "a/%2e%2e/b", "a/%252e%252e"])
    def test_a_path_may_not_go_up_within_the_root_either(self, given: str) -> None:
        with pytest.raises(PathRefused, match=r"has '\.\.' in it, which is not followed"):
            clean_path(given)

    @pytest.mark.parametrize("given", ["a\0b", "a%00b", "a%2500b"])
    def test_a_nul_character_is_refused(self, given: str) -> None:
        with pytest.raises(PathRefused, match="NUL character"):
            clean_path(given)

    @pytest.mark.parametrize("half", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
    def test_half_of_a_surrogate_pair_is_refused_in_an_error_that_can_be_sent(
        self, half: int
    ) -> None:
        with pytest.raises(PathRefused, match="half of a surrogate pair") as caught:
            clean_path(f"a{chr(half)}")
        assert caught.value.detail["path"] == f"a\\u{half:x}"

    def test_a_path_may_have_a_thousand_characters(self) -> None:
        assert clean_path("a" * 1_000) == "a" * 1_000
        with pytest.raises(PathRefused, match="at most 1,000 characters and 50 folders") as caught:
            clean_path("a" * 1_001)
        assert "a" * 100 + "'..." in caught.value.happened
        assert "a" * 101 not in caught.value.happened

    def test_a_path_may_have_fifty_folders(self) -> None:
        deepest = "a/" * 50 + "b"
        assert clean_path(deepest) == deepest
        assert clean_path(deepest.replace("/", "//")) == deepest
        with pytest.raises(PathRefused, match="too long for a path"):
            clean_path("a/" + deepest)
