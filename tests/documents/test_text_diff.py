from __future__ import annotations

from jupyter_collaboration_mcp.documents.text_diff import unified


class TestUnified:
    def test_changed_lines_come_with_their_context(self) -> None:
        before = "\n".join("abcdefghijkl")
        after = before.replace("c", "C").replace("k", "k\nnew")
        assert unified(before, after) == (
            "@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n@@ -10,3 +10,4 @@\n j\n k\n+new\n l"
        )

    def test_changes_close_to_each_other_share_a_hunk(self) -> None:
        assert unified("a\nb\nc\nd", "A\nb\nc\nD", context=1) == (
            "@@ -1,4 +1,4 @@\n-a\n+A\n b\n c\n-d\n+D"
        )

    def test_equal_texts_have_no_diff(self) -> None:
        assert unified("a\n", "a\n") == ""

    def test_a_carriage_return_can_be_seen(self) -> None:
        assert unified("a\r\nb", "a\nb", context=0) == "@@ -1 +1 @@\n-a␍\n+a"

    def test_a_long_diff_is_cut_with_a_count(self) -> None:
        after = "\n".join(f"line {number}" for number in range(5_000))
        diff = unified("", after, limit=500)
        assert len(diff) <= 500
        shown = diff.count("\n")
        assert diff.endswith(f"... {5_000 + 2 - shown:,} more lines of the diff cut")
