"""What Jupyter knows of a kernel gateway becomes an address for our own connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient

from jupyter_collaboration_mcp.assembly import gateway
from jupyter_collaboration_mcp.errors import KernelUnavailable


@pytest.fixture
def client() -> Iterator[Any]:
    """Jupyter's client of a gateway, of which a process has one."""
    GatewayClient.clear_instance()
    yield GatewayClient.instance(url="https://gateway.example/base/")
    GatewayClient.clear_instance()


def test_a_token_is_sent_as_jupyter_sends_it(client: Any) -> None:
    client.auth_token = "secret"
    address = gateway._address()
    assert address.base == "https://gateway.example/base/"
    assert address.credentials == {"Authorization": "token secret"}
    assert address.verify
    client.auth_token = "another"
    assert address.renew() == "another"


def test_another_scheme_or_header_is_sent_as_configured(client: Any) -> None:
    client.auth_token, client.auth_scheme = "secret", "Bearer"
    assert gateway._address().credentials == {"Authorization": "Bearer secret"}
    client._connection_args = {}
    client.auth_header_key, client.headers = "X-Gateway", '{"X-Team": "a"}'
    assert gateway._address().credentials == {"X-Gateway": "Bearer secret", "X-Team": "a"}


def test_without_a_token_none_is_sent(client: Any) -> None:
    client.headers = '{"X-Team": "a"}'
    assert gateway._address().credentials == {"X-Team": "a"}


def test_a_name_and_a_password_are_sent_and_do_not_stand_in_the_address(client: Any) -> None:
    client.http_user, client.http_pwd = "ana", "p@ss/word"
    address = gateway._address()
    assert address.credentials["Authorization"].startswith("Basic ")
    assert address.base == "https://gateway.example/base/"


def test_certificates_are_used_as_configured(client: Any) -> None:
    client.validate_cert = False
    client.client_cert, client.client_key, client.ca_certs = "cert.pem", "key.pem", "ca.pem"
    address = gateway._address()
    assert not address.verify
    assert address.client_certificate == ("cert.pem", "key.pem")
    assert address.authority == "ca.pem"


def test_no_proxy_is_asked_as_jupyter_asks_none(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    address = gateway._address()
    assert replace(address, direct=False).proxy == "http://proxy.example:3128"
    assert address.proxy is None


def test_kernels_elsewhere_than_all_gateways_have_them_are_refused(client: Any) -> None:
    client.kernels_endpoint = "/v2/kernels"
    with pytest.raises(KernelUnavailable) as refused:
        gateway._address()
    assert "/api/kernels" in refused.value.remedy
    client.kernels_endpoint = "/v2/api/kernels"
    assert gateway._address().base == "https://gateway.example/base/v2/"
