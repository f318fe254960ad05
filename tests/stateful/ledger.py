"""What was written, by whom, and what must have become of it: the judge of a round.

Everything that anybody writes is a *word* that nobody else writes, such as `⟦ada-17 é😀⟧`. Each
has a fate, which follows from the answers to the calls that wrote and removed it:

- `there`: an edit with it was acknowledged, or a person typed it. It is in its place, once.
- `gone`: a later edit that removed it was acknowledged, or the edit with it was refused. It is
  nowhere.
- `maybe`: the server was killed during the call, so that nobody can know. It is there once, or not.

Nothing is ever there twice, and between the words nothing stands that nobody wrote.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

WORD = re.compile("⟦[^⟦⟧]*⟧")

#: Beyond ASCII, in one to four bytes and one or two UTF-16 units.
_LETTERS = ("é", "😀", "ß", "漢", "🂡", "x")


class Broken(AssertionError):
    """A round that went wrong, with everything that is needed to see why."""


class Fate(Enum):
    there = "there"
    gone = "gone"
    maybe = "maybe"


class Outcome(Enum):
    """What a caller knows of its call."""

    done = "done"
    refused = "refused"
    unknown = "unknown"


@dataclass(eq=False)
class Word:
    """Something that one call or one person wrote."""

    text: str
    author: str
    place: str
    """The id of the cell, or the name of a text file."""
    fate: Fate = Fate.maybe
    claimed: bool = False
    """Whether a call is about to remove it, or to bring it back."""
    changes: int = 0
    doubted: bool = False
    """Whether it was reported that it may be lost, or back."""
    history: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        return "".join(f"\n      {line}" for line in self.history)


@dataclass
class Edit:
    """A call that writes or removes words, from its beginning to its answer."""

    author: str
    what: str
    adds: list[Word] = field(default_factory=list)
    removes: list[Word] = field(default_factory=list)
    before: dict[Word, Fate] = field(default_factory=dict)


class Ledger:
    """All words of a round, with their history."""

    def __init__(self) -> None:
        self.words: dict[str, Word] = {}
        self.complaints: list[str] = []
        """What was wrong already while the round ran."""
        self.events: list[str] = []
        self._begin = time.monotonic()
        self._numbers: Counter[str] = Counter()

    def note(self, event: str, *words: Word) -> None:
        said = f"{time.monotonic() - self._begin:7.3f} {event}"
        self.events.append(said)
        for word in words:
            word.history.append(said)

    def witness(self, event: str, word: Word) -> None:
        """Somebody has seen something happen to a word; nothing follows from it."""
        word.history.append(f"{time.monotonic() - self._begin:7.3f}   {event}")

    def new(self, author: str, place: str) -> Word:
        """A word that nobody has written yet."""
        number = self._numbers[author] = self._numbers[author] + 1
        letters = _LETTERS[number % len(_LETTERS)] + _LETTERS[number // 2 % len(_LETTERS)]
        word = Word(f"⟦{author}-{number} {letters}⟧", author, place)
        self.words[word.text] = word
        return word

    def typed(self, word: Word, what: str) -> None:
        """A person has it on the screen; it must never get lost."""
        self._become(word, Fate.there, what)

    def begin(
        self, author: str, what: str, adds: Iterable[Word] = (), removes: Iterable[Word] = ()
    ) -> Edit:
        """A call begins that would write and remove words."""
        edit = Edit(author, what, list(adds), list(removes))
        for word in [*edit.adds, *edit.removes]:
            assert not word.claimed
            word.claimed = True
            edit.before[word] = word.fate
        self.note(f"{author} calls {what}", *edit.adds, *edit.removes)
        return edit

    def end(self, edit: Edit, outcome: Outcome, said: str = "") -> None:
        """The call was answered, or it never will be."""
        for word in [*edit.adds, *edit.removes]:
            word.claimed = False
        self.note(f"{edit.author} {outcome.value} {edit.what} {said}".rstrip())
        if outcome is Outcome.done:
            for word in edit.adds:
                # An undo leaves a cell as it is that is back already, perhaps without the word.
                fate = Fate.maybe if word.doubted else Fate.there
                self._become(word, fate, f"{edit.author} done {edit.what}")
            for word in edit.removes:
                self._become(word, Fate.gone, f"{edit.author} done {edit.what}")
        elif outcome is Outcome.unknown:
            for word in [*edit.adds, *edit.removes]:
                self._become(word, Fate.maybe, f"{edit.author} unknown {edit.what} {said}")
        else:
            for word in edit.adds:
                fate = Fate.gone if edit.before[word] is Fate.maybe else edit.before[word]
                self._become(word, fate, f"{edit.author} refused {edit.what} {said}")

    def _become(self, word: Word, fate: Fate, why: str) -> None:
        word.fate = fate
        word.changes += 1
        self.note(f"{why} -> {fate.value}", word)
        self.events.pop()

    def summary(self) -> str:
        """How many calls ended how, and how many words have which fate."""
        said = [event.split()[2:4] for event in self.events]
        ends = Counter(" ".join(end) for end in said if end and end[0] in Outcome.__members__)
        fates = Counter(word.fate.value for word in self.words.values())
        return f"{dict(fates)} {dict(sorted(ends.items()))}"

    def doubt(
        self, place: str, why: str, fates: Collection[Fate], authors: Collection[str] = ()
    ) -> None:
        """What is in a place, or was removed from it, may be there or not.

        Args:
            authors: Only of these, if there are some.
        """
        for word in self.words.values():
            if (
                word.place == place
                and word.fate in fates
                and (not authors or word.author in authors)
            ):
                word.doubted = True
                self._become(word, Fate.maybe, why)

    def complain(self, what: str) -> None:
        self.note(f"WRONG: {what}")
        self.complaints.append(what)

    def removable(self, place: str, author: str | None = None) -> list[Word]:
        """What surely is in a place, and nobody is about to remove."""
        return [
            word
            for word in self.words.values()
            if word.place == place
            and word.fate is Fate.there
            and not word.claimed
            and author in (None, word.author)
        ]

    def settled(self) -> dict[Word, int]:
        """What surely is there now; to be compared with `unchanged` later."""
        return {
            word: word.changes
            for word in self.words.values()
            if word.fate is Fate.there and not word.claimed
        }

    @staticmethod
    def unchanged(settled: Mapping[Word, int]) -> list[Word]:
        """What surely was there all the time since."""
        return [
            word
            for word, changes in settled.items()
            if word.changes == changes and not word.claimed
        ]

    def judge(self, texts: Mapping[str, str], where: str) -> list[str]:
        """What is wrong with texts, by place."""
        found = [
            (place, text) for place, content in texts.items() for text in WORD.findall(content)
        ]
        counts = Counter(text for _, text in found)
        wrong = []
        for word in self.words.values():
            count = counts[word.text]
            allowed = {Fate.there: (1,), Fate.gone: (0,), Fate.maybe: (0, 1)}[word.fate]
            if count not in allowed:
                wrong.append(
                    f"{where}: {word.text} is {word.fate.value}, and was found {count} times"
                    + word.told
                )
        for place, text in found:
            known = self.words.get(text)
            if known is None:
                wrong.append(f"{where}: {text} in {place} was written by nobody")
            elif known.place not in ("", place):
                wrong.append(
                    f"{where}: {text} belongs to {known.place}, and is in {place}" + known.told
                )
        return wrong
