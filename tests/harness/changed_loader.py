"""A server extension with which jupyter-server-ydoc loads files as its next minor release does."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    from jupyter_server_ydoc.loaders import FileLoader
    from jupyter_server_ydoc.rooms import DocumentRoom

    load = FileLoader.load_content
    notice = DocumentRoom._on_outofband_change

    async def load_content(
        self: Any,
        format: str,  # noqa: A002
        file_type: str,
        require_hash: bool = False,
    ) -> Any:
        return await load(self, format, file_type)

    async def on_outofband_change(self: Any) -> None:
        await self._file.load_content(self.file_format, self.file_type, require_hash=True)
        await notice(self)

    FileLoader.load_content = load_content
    DocumentRoom._on_outofband_change = on_outofband_change
