"""What a model would have read: a tool's result as it stands in a client's next request."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from PIL import Image

#: A resource of ours, as text or in what a client makes of a resource link.
_LINK = re.compile(r"\bnotebook:/[^\s\"'`<>()\[\]\\]+")

#: What Codex and Gemini CLI put before the text of a server.
_PREFACE = re.compile(
    r"(?:Script completed\n)?Wall time:? .* seconds\nOutput:\n+|<untrusted_context>\n"
)


@dataclass(frozen=True)
class Picture:
    """An image, which is shown by its size."""

    mime: str
    width: int
    height: int

    @classmethod
    def of(cls, mime: str, data: str) -> Picture:
        """The picture that base64 text holds."""
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            return cls(mime, *image.size)

    def __str__(self) -> str:
        return f"[image {self.width}x{self.height} {self.mime}]"


@dataclass(frozen=True)
class Answer:
    """A tool's result, in the order in which a model reads it."""

    parts: tuple[str | Picture, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def first_line(self) -> str:
        """The first line of what we sent, or of what the client put in place of it."""
        preface = _PREFACE.match(self.text)
        return self.text[preface.end() if preface else 0 :].partition("\n")[0]

    @property
    def pictures(self) -> list[Picture]:
        return [part for part in self.parts if isinstance(part, Picture)]

    @property
    def links(self) -> list[str]:
        """Each resource of ours that is named, once."""
        return list(dict.fromkeys(_LINK.findall(self.text)))

    def abridged(self, limit: int) -> str:
        """Everything, with long text cut in its middle."""
        return "\n".join(
            _abridged(part, limit) if isinstance(part, str) else str(part) for part in self.parts
        )


@dataclass(frozen=True)
class Call:
    """A tool that the stand-in asks for, by the name that we gave it."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.tool}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


@dataclass(frozen=True)
class Exchange:
    """A call and what came back."""

    call: Call
    answer: Answer


def _abridged(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    kept = limit // 2
    left_out = len(text) - 2 * kept
    return f"{text[:kept]}\n  [... {left_out:,} characters not printed here ...]\n{text[-kept:]}"
