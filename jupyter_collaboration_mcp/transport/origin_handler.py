"""Which web pages may use an endpoint, and what browsers are told with its answers."""

from __future__ import annotations

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import origin_matches_pat

from .origins import SECURE_HEADERS, authority, is_origin

#: What pages of allowed origins may read of an answer's headers.
_EXPOSED = "Mcp-Session-Id, Retry-After, WWW-Authenticate"


class OriginHandler(JupyterHandler):
    """A request that pages of foreign origins may not make, whatever token they have."""

    def skip_check_origin(self) -> bool:
        # Jupyter trusts any site that has a token. An agent endpoint is what DNS rebinding and
        # drive-by pages aim at, so the MCP specification requires an Origin check on each request.
        return False

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:
        """Let in the server's own origin and those that its configuration names.

        Jupyter's own method compares what stands between `//` and `/`, in whatever this is.
        """
        sent = self.request.headers.get_list("Origin")
        if not sent or self.allow_origin == "*":
            return True
        if len(sent) == 1 and self._is_allowed(sent[0]):
            return True
        self.log.warning("Refused a request to %s from Origin %.200r", self.request.path, sent)
        return False

    def _is_allowed(self, origin: str) -> bool:
        host = self.request.headers.get("Host")
        if host is not None and authority(origin) == host.lower():
            return True
        if self.allow_origin:
            return bool(origin.lower() == self.allow_origin)
        return self._fits_pattern(origin.lower())

    def _fits_pattern(self, origin: str) -> bool:
        return is_origin(origin) and origin_matches_pat(self.allow_origin_pat or "", origin)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        for name, value in SECURE_HEADERS.items():
            self.set_header(name, value)

    def set_cors_headers(self) -> None:
        """Let the origins of `ServerApp.allow_origin` read the answer, and no others.

        Jupyter's own method would let any origin in that sends a token.
        """
        origin = self.get_origin()
        if origin is None:
            return
        if self.allow_origin:
            self.set_header("Access-Control-Allow-Origin", self.allow_origin)
        elif self._fits_pattern(origin):
            self.set_header("Access-Control-Allow-Origin", origin)
        else:
            return
        self.set_header("Access-Control-Expose-Headers", _EXPOSED)
        self.set_header("Vary", "Origin")
        if self.allow_credentials:
            self.set_header("Access-Control-Allow-Credentials", "true")

    def is_preflight(self) -> bool:
        """Whether a browser only asks what a page may send."""
        headers = self.request.headers
        return (
            self.request.method == "OPTIONS"
            and "Origin" in headers
            and "Access-Control-Request-Method" in headers
        )
