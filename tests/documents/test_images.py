from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from jupyter_collaboration_mcp.documents.images import (
    ImageLimits,
    Picture,
    dimensions,
    picture,
)

LIMITS = ImageLimits()


def encoded(image: Image.Image, kind: str, **options: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return base64.b64encode(buffer.getvalue()).decode()


def plain(width: int, height: int, mode: str = "RGB", kind: str = "PNG") -> str:
    return encoded(Image.new(mode, (width, height)), kind)


def noise(width: int, height: int, bands: int) -> Image.Image:
    mode = {3: "RGB", 4: "RGBA"}[bands]
    return Image.frombytes(mode, (width, height), Random(0).randbytes(width * height * bands))


def opened(made: Picture) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(made.data, validate=True)))
    image.load()
    assert image.size == (made.width, made.height)
    assert image.format
    assert f"image/{image.format.lower()}" == made.mime
    return image


def animation(kind: str, width: int, height: int, frames: int = 3) -> str:
    images = [Image.new("RGB", (width, height), (80 * n, 0, 0)) for n in range(frames)]
    return encoded(images[0], kind, save_all=True, append_images=images[1:], duration=50)


#: One pixel, as matplotlib would write it.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


class TestPassedOn:
    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
    def test_an_image_that_fits_is_passed_on_unchanged(self, kind: str) -> None:
        data = plain(640, 480, kind=kind)
        mime = f"image/{kind.lower()}"
        assert picture(mime, data, LIMITS) == Picture(mime, data, 640, 480, None)

    @pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 50}, {"exif": b"Exif\0"}])
    def test_every_kind_of_webp_is_measured(self, options: dict[str, Any]) -> None:
        image = Image.new("RGBA", (99, 101), (1, 2, 3, 4))
        made = picture("image/webp", encoded(image, "WEBP", **options), LIMITS)
        assert made
        assert (made.width, made.height) == (99, 101)

    def test_only_line_breaks_are_removed(self) -> None:
        broken_up = "\n".join(PIXEL[n : n + 76] for n in range(0, len(PIXEL), 76)) + "\n"
        assert picture("image/png", broken_up, LIMITS) == Picture("image/png", PIXEL, 1, 1, None)

    def test_the_type_comes_from_the_bytes_not_from_the_kernel(self) -> None:
        made = picture("image/jpeg", PIXEL, LIMITS)
        assert made
        assert made.mime == "image/png"

    def test_passing_on_an_image_does_not_import_pillow(self) -> None:
        code = (
            "import sys; from jupyter_collaboration_mcp.documents.images import *\n"
            f"assert picture('image/png', {PIXEL!r}, ImageLimits())\n"
            "assert 'PIL' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestScaled:
    @pytest.mark.parametrize(
        ("size", "scaled"),
        [
            ((2000, 1500), (700, 504)),
            ((1500, 2000), (504, 700)),
            ((701, 700), (700, 672)),
            ((10, 20_000), (28, 700)),
            ((20_000, 10), (700, 28)),
            ((7000, 7000), (700, 700)),
        ],
    )
    def test_the_sides_are_multiples_within_the_limits(
        self, size: tuple[int, int], scaled: tuple[int, int]
    ) -> None:
        made = picture("image/png", plain(*size, mode="L"), LIMITS)
        assert made
        assert made.mime == "image/png"
        assert made.note == f"scaled from {size[0]} x {size[1]}"
        assert opened(made).size == scaled

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
    def test_every_mode_of_png_can_be_scaled(self, mode: str) -> None:
        made = picture("image/png", plain(1000, 1000, mode), LIMITS)
        assert made
        opened(made)

    @pytest.mark.parametrize("mode", ["L", "RGB", "CMYK", "YCbCr"])
    def test_jpeg_stays_jpeg(self, mode: str) -> None:
        made = picture("image/jpeg", plain(1000, 800, mode, "JPEG"), LIMITS)
        assert made
        assert made.mime == "image/jpeg"
        assert opened(made).size == (700, 560)

    def test_a_sixteen_bit_image_keeps_its_brightness(self) -> None:
        made = picture("image/png", encoded(Image.new("I;16", (800, 800), 32_768), "PNG"), LIMITS)
        assert made
        assert opened(made).convert("L").getpixel((5, 5)) == 128

    def test_transparency_is_kept(self) -> None:
        palette = Image.new("P", (800, 800), 1)
        palette.putpalette([0, 0, 0, 255, 0, 0])
        data = encoded(palette, "PNG", transparency=1)
        made = picture("image/png", data, LIMITS)
        assert made
        assert opened(made).convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]

    def test_webp_becomes_png(self) -> None:
        made = picture("image/webp", plain(1000, 1000, kind="WEBP"), LIMITS)
        assert made
        assert made.mime == "image/png"

    @pytest.mark.parametrize("bands", [3, 4])
    def test_an_image_that_is_too_large_as_png_becomes_jpeg(self, bands: int) -> None:
        data = encoded(noise(750, 750, bands), "PNG")
        assert len(data) > 1_000_000
        made = picture("image/png", data, LIMITS)
        assert made
        assert made.mime == "image/jpeg"
        assert len(made.data) < 1_000_000
        opened(made)

    def test_a_photograph_is_rotated_upright(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        data = encoded(Image.new("RGB", (1600, 800)), "JPEG", exif=exif)
        made = picture("image/jpeg", data, LIMITS)
        assert made
        assert opened(made).size == (336, 700)
        assert made.note == "scaled from 800 x 1600"

    def test_a_large_image_is_not_shown_without_pillow(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "PIL", None)
        assert picture("image/png", plain_png(1000, 1000), LIMITS) is None


class TestAnimations:
    @pytest.mark.parametrize("kind", ["GIF", "WEBP"])
    def test_the_first_frame_is_shown(self, kind: str) -> None:
        made = picture(f"image/{kind.lower()}", animation(kind, 50, 40), LIMITS)
        assert made
        assert (made.mime, made.width, made.height) == ("image/png", 50, 40)
        assert made.note == "first of 3 frames"
        opened(made)

    def test_a_large_first_frame_is_scaled(self) -> None:
        made = picture("image/gif", animation("GIF", 1400, 1400), LIMITS)
        assert made
        assert made.note == "first of 3 frames, scaled from 1400 x 1400"
        assert opened(made).size == (700, 700)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(
        ">I", zlib.crc32(kind + content)
    )  # fmt: skip


def plain_png(width: int, height: int, pixels: bytes | None = None) -> str:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = bytes(height * (width + 1)) if pixels is None else pixels
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(raw + chunk(b"IEND", b"")).decode()


def cut(data: str, end: int) -> str:
    return base64.b64encode(base64.b64decode(data)[:end]).decode()


class TestNotShown:
    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
    @pytest.mark.parametrize("side", [100, 1000])
    def test_a_truncated_image_is_not_shown(self, kind: str, side: int) -> None:
        data = encoded(Image.linear_gradient("L").resize((side, side)).convert("RGB"), kind)
        assert picture(f"image/{kind.lower()}", data, LIMITS)
        assert picture(f"image/{kind.lower()}", cut(data, -1), LIMITS) is None
        assert picture(f"image/{kind.lower()}", cut(data, -50), LIMITS) is None
        assert picture(f"image/{kind.lower()}", data[: len(data) // 2], LIMITS) is None

    def test_a_damaged_image_is_not_shown(self) -> None:
        raw = bytearray(base64.b64decode(plain(100, 100)))
        raw[60] ^= 1
        assert picture("image/png", base64.b64encode(raw).decode(), LIMITS) is None

    def test_a_decompression_bomb_is_not_decoded(self) -> None:
        assert picture("image/png", plain_png(30_000, 30_000, b"x"), LIMITS) is None
        assert dimensions(plain_png(30_000, 30_000, b"x")) == (30_000, 30_000)

    def test_a_decompression_bomb_in_a_gif_frame_is_not_decoded(self) -> None:
        raw = bytearray(base64.b64decode(plain(10, 10, "P", "GIF")))
        place = raw.index(b"\x2c\0\0\0\0")
        raw[place + 5 : place + 9] = struct.pack("<HH", 12_000, 12_000)
        assert picture("image/gif", base64.b64encode(raw).decode(), LIMITS) is None

    def test_an_image_with_missing_rows_is_not_shown(self) -> None:
        assert picture("image/png", plain_png(1000, 1000, bytes(5_000)), LIMITS) is None

    @pytest.mark.parametrize(
        "data",
        ["", "====", "no base64", "é", "AAAA", base64.b64encode(b"BM" + bytes(100)).decode(),
         base64.b64encode(b"\xff\xd8\xff\xd9").decode(), plain_png(0, 10)],
    )  # fmt: skip
    def test_data_that_is_not_an_image_is_not_shown(self, data: str) -> None:
        assert picture("image/png", data, LIMITS) is None

    def test_an_svg_is_not_shown_as_an_image(self) -> None:
        assert picture("image/svg+xml", "<svg/>", LIMITS) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_dimensions_of_a_truncated_image_are_known(kind: str) -> None:
    assert dimensions(plain(640, 480, kind=kind)[:1_000]) == (640, 480)
    assert dimensions("no image") is None


SAMPLES = [
    base64.b64decode(data)
    for data in (PIXEL, plain(40, 30, kind="JPEG"), animation("GIF", 8, 8), animation("WEBP", 8, 8),
                 plain(800, 10), plain(800, 10, kind="JPEG"), plain(800, 10, "P", "GIF"))
]  # fmt: skip


@settings(deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=5),
    st.integers(0, 50),
)
def test_damaged_bytes_give_a_whole_image_or_none(
    sample: bytes, changes: list[tuple[int, int]], missing: int
) -> None:
    raw = bytearray(sample)
    for place, value in changes:
        raw[place % len(raw)] = value
    data = base64.b64encode(raw[: len(raw) - missing]).decode()
    made = picture("image/png", data, LIMITS)
    assert made is None or (made.width <= 700 and made.height <= 700)
    dimensions(data)
