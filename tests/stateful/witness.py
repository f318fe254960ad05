"""A tab that writes down when a word came and went, and who did it: the history of a failure."""

from __future__ import annotations

import asyncio
from collections import Counter

from pycrdt import TransactionEvent

from jupyter_collaboration_mcp.documents.updates import sole_author
from tests.harness.collaborator import Collaborator

from .ledger import WORD, Ledger


class Witness:
    """Adds to the words of a ledger what a tab sees of them.

    Args:
        tab: In the document; what it writes itself is seen, too.
    """

    def __init__(self, ledger: Ledger, tab: Collaborator) -> None:
        self._ledger, self._tab = ledger, tab
        self._seen = self._count()
        self._loop = asyncio.get_running_loop()
        tab.doc.observe(self._on_update)

    def _on_update(self, event: TransactionEvent) -> None:
        # The document cannot be read in the middle of its change.
        self._loop.call_soon(self._look, sole_author(event.update))

    def _look(self, client: int | None) -> None:
        seen = self._count()
        for text in {*seen, *self._seen}:
            word = self._ledger.words.get(text)
            if word is not None and seen[text] != self._seen[text]:
                how = f"{self._seen[text]} -> {seen[text]} times"
                self._ledger.witness(f"seen {how} by an update of {self._who(client)}", word)
        self._seen = seen

    def _who(self, client: int | None) -> str:
        if client is None:
            return "several, or only removing"
        user = self._tab.awareness.states.get(client, {}).get("user", {})
        return f"{user.get('display_name', 'nobody present')} ({client})"

    def _count(self) -> Counter[str]:
        tab = self._tab
        texts = tab.sources() if tab.kind == "notebook" else [tab.source()]
        return Counter(text for source in texts for text in WORD.findall(source))
