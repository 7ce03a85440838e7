"""Connections and what stands between: TLS, proxies, event loops. Through both SDKs, over real sockets."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fitter.clients.base import Reply
from fitter.clients.registry import open_client
from tests.clients.helpers import ask, quick, request, run
from tests.servers import anthropic_api, openai_api
from tests.servers.loopback import Play, Script, Server, spoil, with_faults

# A host that is_loopback() does not know, so that proxies and SSL_CERT_FILE count, and that still is this machine.
HERE = "0.0.0.0"


@dataclass(frozen=True)
class Vendor:
    """One SDK: its spec for a server's address, and the script of its stand-in."""

    name: str
    spec: str
    script: Script


VENDORS = [
    Vendor("openai", "openai:m@{url}/v1", openai_api.api(openai_api.Model())),
    Vendor("anthropic", "anthropic:m@{url}", anthropic_api.api(anthropic_api.Model())),
]


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found = request.param
    assert isinstance(found, Vendor)
    return found


def calls(vendor: Vendor, server: Server, *, rounds: int, at_once: int) -> list[Reply]:
    """Calls by ``at_once`` workers, in as many event loops as there are rounds, through one client."""
    client = open_client(vendor.spec.format(url=server.url), {}, {}, retrier=quick(concurrency=at_once))

    async def work() -> list[Reply]:
        numbers, found = iter(range(12 * at_once)), list[Reply]()

        async def worker() -> None:
            for number in numbers:
                found.append(await client.complete(request(f"row {number}"), run=0))

        await asyncio.gather(*(worker() for _ in range(at_once)))
        await client.aclose()
        return found

    return [reply for _ in range(rounds) for reply in run(work())]


def test_there_are_never_more_connections_than_calls_at_once(vendor: Vendor) -> None:
    """Answers come at different times: a call takes a connection that is free, not the next in turn."""
    late = with_faults(vendor.script, (lambda asked: asked.number % 3 == 0, lambda play: spoil(play, before_s=0.02)))
    with Server(late) as server:
        replies = calls(vendor, server, rounds=1, at_once=6)
        assert [reply.outcome for reply in replies] == ["ok"] * 72
        assert server.connections <= 6


def test_a_lone_caller_has_one_connection(vendor: Vendor) -> None:
    with Server(vendor.script) as server:
        assert len(calls(vendor, server, rounds=1, at_once=1)) == 12
        assert server.connections == 1


def test_the_machines_certificates_are_read_once_a_client(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 20 ms; with a connection a call and a loop a phase it would be the largest part of a short phase."""
    made: list[Any] = []
    create = httpx2.create_ssl_context

    def counted(**settings: Any) -> ssl.SSLContext:
        made.append(settings)
        return create(**settings)

    monkeypatch.setattr(httpx2, "create_ssl_context", counted)
    with Server(vendor.script) as server:
        assert len(calls(vendor, server, rounds=3, at_once=4)) == 144
    assert made == [{"trust_env": False}]


def test_others_are_reached_through_the_proxy_that_the_environment_names(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(vendor.script) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert ask(vendor.spec.format(url="http://model.invalid")).outcome == "ok"
        assert [asked.path.partition("/v1/")[0] for asked in proxy.asked] == ["http://model.invalid"]


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a stand-in")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HERE))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with Server(lambda _: Play(status=500), tls=tls) as server:
        yield server


def test_a_server_whose_certificate_nobody_vouches_for_gets_no_request(vendor: Vendor, secure: Server) -> None:
    secure.script = vendor.script
    reply = ask(vendor.spec.format(url=f"https://{HERE}:{secure.port}"))
    assert reply.outcome == "unavailable"
    assert "certificate" in reply.detail.lower()
    assert set(reply.faults) == {"connection"}
    assert secure.asked == []


def test_a_certificate_named_by_the_environment_is_trusted(
    vendor: Vendor, secure: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure.script = vendor.script
    assert ask(vendor.spec.format(url=f"https://{HERE}:{secure.port}")).outcome == "ok"
    assert len(secure.asked) == 1
