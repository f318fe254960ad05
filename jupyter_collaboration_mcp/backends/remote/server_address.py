"""The URL of a Jupyter server, and what it takes to connect: credentials, proxy, certificates."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

#: Characters that may be in a path unencoded; the others are percent-encoded.
_IN_PATH = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a Jupyter server is, and how to authenticate."""

    url: str
    """The URL of the server, with its base URL."""
    token: str | None = None
    verify: bool = True
    """Whether its certificate must be one that this machine trusts."""
    renew: Callable[[], str | None] | None = field(default=None, compare=False)
    """Looks up the current token where this one came from; may take a moment."""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Sent along with each request."""
    authority: str | None = None
    """A file with certificates that are trusted as those of this machine are."""
    client_certificate: tuple[str, str | None] | None = None
    """Files with a certificate of our own and its key, for a server that wants one."""
    direct: bool = False
    """Whether no proxy stands in between, whatever the environment names."""

    @property
    def base(self) -> str:
        """The URL with a slash at the end, without a query and without a password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{quote(parts.path.rstrip('/'), safe=_IN_PATH)}/"

    @property
    def credentials(self) -> dict[str, str]:
        """Headers that authenticate: with the token, or with the user info of the URL."""
        if self.token is not None:
            return {**self.headers, "Authorization": f"token {self.token}"}
        name, at, _ = urlsplit(self.url).netloc.rpartition("@")
        if not at:
            return dict(self.headers)
        encoded = base64.b64encode(unquote(name).encode()).decode()
        return {**self.headers, "Authorization": f"Basic {encoded}"}

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names for this server, unless it is reached directly."""
        if self.direct:
            return None
        parts = urlsplit(self.base)
        # A proxy leads out of this machine, not to a server on it.
        host = parts.hostname or ""
        if _is_loopback(host) or proxy_bypass(f"{host}:{parts.port}" if parts.port else host):
            return None
        proxies = getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        return proxy if proxy is None or "://" in proxy else f"http://{proxy}"

    def ssl_context(self) -> ssl.SSLContext:
        """How certificates are verified; takes a while to load."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.client_certificate is not None:
            context.load_cert_chain(*self.client_certificate)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def is_address(url: str) -> bool:
    """Whether a URL could be that of a server at all."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
