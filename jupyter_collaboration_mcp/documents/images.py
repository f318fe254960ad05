"""Images as a model can look at them: whole, of a bounded size, in a format it knows.

The size of an image stands in its first bytes, so one that fits needs no imaging library.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How large images may be, and how many there may be, in one answer."""

    width: int = 700
    height: int = 700
    multiple: int = 28
    """The sides of a scaled image are rounded down to a multiple of this, in which models count."""
    most: int = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """One image, ready to be sent."""

    mime: str
    data: str
    """Base64, whole, without line breaks."""
    width: int
    height: int
    note: str | None
    """What is different from the output, such as `scaled from 2000 x 1500`."""


def picture(mime: str, data: str, limits: ImageLimits) -> Picture | None:
    """The image as it may be sent; None if it cannot be shown, or only in part."""
    if mime.partition(";")[0].endswith("+xml") or len(data) > _LONGEST:
        return None
    content = "".join(data.split())
    try:
        raw = base64.b64decode(content, validate=True)
        header = _header(raw, whole=True)
    except _UNREADABLE:
        return None
    if header is None or not 0 < header.width * header.height <= _MOST_PIXELS:
        return None
    fits = header.width <= limits.width and header.height <= limits.height
    if fits and header.frames == 1 and len(content) <= _LONGEST_PASSED:
        return Picture(header.mime, content, header.width, header.height, None)
    return _redrawn(raw, header, limits)


def dimensions(data: str) -> tuple[int, int] | None:
    """Width and height as the first bytes say, whether or not the rest can be shown."""
    start = "".join(data[:_HEADER_SEARCH].split())
    try:
        header = _header(base64.b64decode(start[: len(start) // 4 * 4]), whole=False)
    except _UNREADABLE:
        return None
    return (header.width, header.height) if header and header.width and header.height else None


#: What is longer is not meant for a model, and decoding it would hold up everybody else.
_LONGEST = 64_000_000
_MOST_PIXELS = 50_000_000
#: An image that fits in pixels but is longer (comments, 16 bits a colour) is drawn anew:
#: clients refuse images of more than 5 MB.
_LONGEST_PASSED = 4_000_000
_LONGEST_PNG = 1_000_000
_HEADER_SEARCH = 400_000

_UNREADABLE = (binascii.Error, ValueError, struct.error, IndexError)


# What the bytes themselves say


class _Header(NamedTuple):
    mime: str
    width: int
    height: int
    frames: int


def _header(raw: bytes, *, whole: bool) -> _Header | None:
    """By the bytes and not by the declared type: clients refuse an image whose type is wrong."""
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(raw, whole)
    if raw.startswith(b"\xff\xd8\xff"):
        return _jpeg(raw, whole)
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return _gif(raw, whole)
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return _webp(raw, whole)
    return None


def _png(raw: bytes, whole: bool) -> _Header | None:
    if raw[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", raw, 16)
    if whole and not _is_whole_png(raw):
        return None
    return _Header("image/png", width, height, 1)


def _is_whole_png(raw: bytes) -> bool:
    """Every chunk up to the end is there, and as it was written."""
    place, kinds = 8, []
    view = memoryview(raw)
    while place < len(raw):
        length = struct.unpack_from(">I", raw, place)[0]
        end = place + 8 + length
        if zlib.crc32(view[place + 4 : end]) != struct.unpack_from(">I", raw, end)[0]:
            return False
        kinds.append(raw[place + 4 : place + 8])
        place = end + 4
    return b"IDAT" in kinds and kinds[-1] == b"IEND"


def _jpeg(raw: bytes, whole: bool) -> _Header | None:
    if whole and not raw.endswith(b"\xff\xd9"):
        return None
    place = 2
    while raw[place] == 0xFF:
        marker = raw[place + 1]
        if marker == 0xFF:  # A fill byte.
            place += 1
            continue
        # C4, C8 and CC are tables among the frame headers; after DA comes the image.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", raw, place + 5)
            return _Header("image/jpeg", width, height, 1)
        if marker == 0xDA:
            return None
        standalone = marker == 0x01 or 0xD0 <= marker <= 0xD8
        place += 2 if standalone else 2 + struct.unpack_from(">H", raw, place + 2)[0]
    return None


def _gif(raw: bytes, whole: bool) -> _Header | None:
    width, height = struct.unpack_from("<HH", raw, 6)
    if not whole:
        return _Header("image/gif", width, height, 1)
    frames = 0
    for left, top, frame_width, frame_height in _gif_frames(raw):
        if not frames:
            # Decoders make room for a frame that is larger than its screen.
            width, height = max(width, left + frame_width), max(height, top + frame_height)
        frames += 1
    return _Header("image/gif", width, height, frames) if frames else None


def _gif_frames(raw: bytes) -> Iterator[tuple[int, ...]]:
    """The place and size of each frame; an error if the end is missing."""
    place = 13 + _gif_colours(raw[10])
    while raw[place] != 0x3B:
        if raw[place] == 0x2C:
            yield struct.unpack_from("<4H", raw, place + 1)
            place += 11 + _gif_colours(raw[place + 9])
        elif raw[place] == 0x21:
            place += 2
        else:
            raise ValueError("not a block of a GIF")
        while raw[place]:
            place += 1 + raw[place]
        place += 1


def _gif_colours(flags: int) -> int:
    """Length of the colour table that the flags announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(raw: bytes, whole: bool) -> _Header | None:
    length = struct.unpack_from("<I", raw, 4)[0]
    if whole and len(raw) < length + 8:
        return None
    frames = 1
    match raw[12:16]:
        case b"VP8X":
            width = 1 + int.from_bytes(raw[24:27], "little")
            height = 1 + int.from_bytes(raw[27:30], "little")
            if whole and raw[20] & 2:
                frames = sum(kind == b"ANMF" for kind in _riff_kinds(raw))
        case b"VP8L":
            bits = struct.unpack_from("<I", raw, 21)[0]
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", raw, 26))
        case _:
            return None
    return _Header("image/webp", width, height, frames) if frames else None


def _riff_kinds(raw: bytes) -> Iterator[bytes]:
    place = 12
    while place + 8 <= len(raw):
        yield raw[place : place + 4]
        length = struct.unpack_from("<I", raw, place + 4)[0]
        place += 8 + length + length % 2


# Drawn anew


def _redrawn(raw: bytes, header: _Header, limits: ImageLimits) -> Picture | None:
    """Scaled down if needed; of an animation the first frame."""
    try:
        mime, content, width, height, notes = _scaled(raw, header, limits)
    except Exception:
        # A decoder at odds with its input raises anything from SyntaxError to MemoryError,
        # ImportError if there is none; in any case there is no image to show.
        return None
    if header.frames > 1:
        notes.insert(0, f"first of {header.frames} frames")
    data = base64.b64encode(content).decode()
    return Picture(mime, data, width, height, ", ".join(notes) or None)


def _scaled(
    raw: bytes, header: _Header, limits: ImageLimits
) -> tuple[str, bytes, int, int, list[str]]:
    from io import BytesIO

    from PIL import Image, ImageOps

    kind = header.mime.partition("/")[2].upper()
    full = header.width, header.height
    with Image.open(BytesIO(raw), formats=[kind]) as opened:
        # Decodes a JPEG at a half, a quarter or an eighth, where that is still large enough.
        side = max(limits.width, limits.height)
        opened.draft(None, (side, side))
        held = opened.getexif().get(_ORIENTATION, 1)
        if held in _ON_ITS_SIDE:
            full = header.height, header.width
        image = _plain(opened if held == 1 else ImageOps.exif_transpose(opened))
    target = _fitting(*full, limits)
    notes = []
    if target != full:
        notes.append(f"scaled from {full[0]} x {full[1]}")
        image = image.resize(target, Image.Resampling.LANCZOS, reducing_gap=2.0)
    # Colour profiles and comments would be written again.
    image.info = {}
    mime, content = _encoded(image, as_jpeg=kind == "JPEG")
    return mime, content, *image.size, notes


#: Where a camera says how it was held, and the answers for an image stored on its side.
_ORIENTATION = 0x0112
_ON_ITS_SIDE = (5, 6, 7, 8)


def _fitting(width: int, height: int, limits: ImageLimits) -> tuple[int, int]:
    scale = min(limits.width / width, limits.height / height)
    if scale >= 1:
        return width, height

    def rounded(side: float) -> int:
        # A hair more, so that 700 does not become 699.99 and then 672.
        whole = int(side + 1e-6)
        return max(limits.multiple, whole - whole % limits.multiple)

    return rounded(width * scale), rounded(height * scale)


def _plain(image: Image) -> Image:
    """In one of the modes that can be both scaled well and written: L, RGB or RGBA."""
    if image.mode.startswith("I") or image.mode == "F":
        # Sixteen bits: a conversion alone would cut off at 255, and all would be white.
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if "transparency" in image.info or image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _encoded(image: Image, *, as_jpeg: bool) -> tuple[str, bytes]:
    from io import BytesIO

    if not as_jpeg:
        buffer = BytesIO()
        image.save(buffer, "PNG")
        if buffer.tell() * 4 <= _LONGEST_PNG * 3:
            return "image/png", buffer.getvalue()
    buffer = BytesIO()
    _opaque(image).save(buffer, "JPEG", quality=80)
    return "image/jpeg", buffer.getvalue()


def _opaque(image: Image) -> Image:
    """On white, as a notebook shows it."""
    if image.mode != "RGBA":
        return image
    from PIL.Image import alpha_composite, new

    return alpha_composite(new("RGBA", image.size, "white"), image).convert("RGB")
