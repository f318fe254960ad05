"""HTTP to one Jupyter server: its credentials, its proxy, and its XSRF token."""

from __future__ import annotations

from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request

import httpx2

from .answer_limits import Answer
from .server_address import ServerAddress
from .server_errors import ServerErrors

#: Seconds to connect.
CONNECT = 10.0

_XSRF = "_xsrf"


def new_client(address: ServerAddress) -> httpx2.AsyncClient:
    """A client for one server, with its token, and through its proxy if it has one.

    Raises:
        ServerUnreachable: The environment names an unusable proxy.
    """
    try:
        return httpx2.AsyncClient(
            headers=address.credentials,
            cookies=CookieJar(_OnlyXsrf()),
            # Certificates take a while to load, and http needs no verification.
            verify=address.base.startswith("https") and address.ssl_context(),
            timeout=httpx2.Timeout(None, connect=CONNECT),  # each request has its own deadline
            follow_redirects=False,
            proxy=address.proxy,
            trust_env=False,  # `address.proxy` is the same for HTTP and for WebSockets
        )
    except (ImportError, ValueError) as error:  # SOCKS needs a package; nonsense
        raise ServerErrors(address).unreachable(error) from error


class _OnlyXsrf(DefaultCookiePolicy):
    """Keeps no other cookie: Jupyter would accept one even after its token was revoked."""

    def set_ok(self, cookie: Cookie, request: Request) -> bool:
        return cookie.name == _XSRF and super().set_ok(cookie, request)


async def send(
    client: httpx2.AsyncClient, base: str, method: str, url: str, body: Any
) -> httpx2.Response:
    """Send a request, with the XSRF token if there is one; does not read the body of the answer.

    Args:
        base: The base URL of the server.
    """
    token = xsrf_token(client, base) if method != "GET" else None
    headers = {} if token is None else {"X-XSRFToken": token}
    request = client.build_request(method, url, json=body, headers=headers)
    return await client.send(request, stream=True)


def wants_xsrf_token(answer: Answer) -> bool:
    """Whether a server refused a request only because it lacked an XSRF token."""
    request = answer.request
    return (
        answer.status == 403
        and request.method != "GET"
        and "X-XSRFToken" not in request.headers
        and _XSRF.encode() in answer.body
    )


def xsrf_token(client: httpx2.AsyncClient, base: str) -> str | None:
    """The token of the server itself; a proxy in front of it may have set another one."""
    path = urlsplit(base).path
    fitting = [cookie for cookie in client.cookies.jar if path.startswith(cookie.path)]
    return max(fitting, key=lambda cookie: len(cookie.path)).value if fitting else None
