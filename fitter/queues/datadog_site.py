"""Datadog sites, hosts and keys: which machine is asked, and with what. No network.

Hosts follow the public site table (docs/datadog.md). Keys come from the environment and leave only as request headers:
:class:`Access` has no useful repr, and every text that came from the platform passes its redactor (SC-3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from fitter.clients.options import is_loopback
from fitter.clients.secrets import Redactor
from fitter.errors import SettingsError
from fitter.textsafe import one_line

SITES: Final = (
    "datadoghq.com",
    "us3.datadoghq.com",
    "us5.datadoghq.com",
    "datadoghq.eu",
    "ap1.datadoghq.com",
    "ap2.datadoghq.com",
    "uk1.datadoghq.com",
    "ddog-gov.com",
    "us2.ddog-gov.com",
    "datad0g.com",
)
_APP_HOST = frozenset({"datadoghq.com", "datadoghq.eu", "ddog-gov.com"})
_NO_MCP = frozenset({"ddog-gov.com", "us2.ddog-gov.com", "datad0g.com"})
_KEY = re.compile(r"[\x21-\x7e]+")
MCP_PATH: Final = "/v1/mcp"


@dataclass(frozen=True, kw_only=True)
class Site:
    """One Datadog site.

    Attributes:
        name: as in DD_SITE, e.g. ``us3.datadoghq.com``.
        rest: origin of the REST API.
        mcp: URL of the MCP endpoint without query, or None where the site has none.
        ui: host of the web interface.
        stand_in: the origin was overridden (DD_LLMOBS_OVERRIDE_ORIGIN).
    """

    name: str
    rest: str
    mcp: str | None
    ui: str
    stand_in: bool = False

    @property
    def evaluations_page(self) -> str:
        """The page that lists the evaluators, for people."""
        return f"https://{self.ui}/llm/evaluations"


def site_named(name: str) -> Site:
    """The hosts of a site.

    Raises:
        SettingsError: no such site; a key is never sent to a host that is not in the table.
    """
    if name not in SITES:
        raise SettingsError(
            f"DD_SITE is {one_line(name, 60)!r}, which is no Datadog site fitter knows",
            hint=f"set it to one of: {', '.join(SITES)}",
        )
    if name == "datad0g.com":
        host = f"dd.{name}"
    else:
        host = f"app.{name}" if name in _APP_HOST else name
    mcp = None if name in _NO_MCP else f"https://mcp.{name}{MCP_PATH}"
    return Site(name=name, rest=f"https://api.{name}", mcp=mcp, ui=host)


@dataclass(frozen=True, kw_only=True)
class Access:
    """A site and the two keys.

    Attributes:
        site: where.
        api_key, app_key: secrets, kept out of repr.
        redact: removes both keys from any text.
    """

    site: Site
    api_key: str = field(repr=False)
    app_key: str = field(repr=False)
    redact: Redactor = field(repr=False, compare=False)

    def rest_headers(self) -> dict[str, str]:
        """REST wants hyphens."""
        return {"DD-API-KEY": self.api_key, "DD-APPLICATION-KEY": self.app_key, "Accept": "application/json"}

    def mcp_headers(self) -> dict[str, str]:
        """The MCP server wants underscores and answers 403 to hyphens."""
        return {"DD_API_KEY": self.api_key, "DD_APPLICATION_KEY": self.app_key}


def access_from(env: Mapping[str, str]) -> Access:
    """Reads site and keys from an environment.

    Raises:
        SettingsError: a key is missing or malformed (its value is never quoted), two application keys contradict each
            other, the site is unknown, or the override would send keys in the clear to another machine.
    """
    missing = []
    api_key = env.get("DD_API_KEY", "").strip()
    app_keys = {name: env.get(name, "").strip() for name in ("DD_APP_KEY", "DD_APPLICATION_KEY")}
    given = {value for value in app_keys.values() if value}
    if not api_key:
        missing.append("DD_API_KEY")
    if not given:
        missing.append("DD_APP_KEY (or DD_APPLICATION_KEY)")
    if missing:
        raise SettingsError(
            f"Datadog needs {' and '.join(missing)} in the environment",
            hint="create both keys in Organization Settings; the application key needs llm_observability_read",
        )
    if len(given) > 1:
        raise SettingsError("DD_APP_KEY and DD_APPLICATION_KEY are both set and differ", hint="unset one of them")
    app_key = given.pop()
    for name, value in (("DD_API_KEY", api_key), ("the application key", app_key)):
        if not _KEY.fullmatch(value):
            raise SettingsError(f"{name} is not a key: it holds white space or characters that cannot be sent")
    site = site_named(env.get("DD_SITE", "").strip().lower() or "datadoghq.com")
    override = env.get("DD_LLMOBS_OVERRIDE_ORIGIN", "").strip().rstrip("/")
    if override:
        site = _overridden(site, override)
    mcp_path = env.get("DD_LLMOBS_MCP_PATH", "").strip()
    if mcp_path and site.mcp is not None:
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", mcp_path):
            raise SettingsError("DD_LLMOBS_MCP_PATH is not a path", hint=f"the usual one is {MCP_PATH}")
        site = replace(site, mcp=site.mcp.removesuffix(MCP_PATH) + mcp_path)
    return Access(site=site, api_key=api_key, app_key=app_key, redact=Redactor([api_key, app_key]))


def _overridden(site: Site, origin: str) -> Site:
    try:
        parts = urlsplit(origin)
        plain = not (parts.username or parts.password or parts.path or parts.query or parts.fragment)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and plain
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(
            "DD_LLMOBS_OVERRIDE_ORIGIN is not an origin", hint="write scheme, host and port: http://127.0.0.1:8126"
        )
    if parts.scheme == "http" and not is_loopback(origin):
        raise SettingsError(
            "DD_LLMOBS_OVERRIDE_ORIGIN would send both keys unencrypted to another machine",
            hint="use https, or an address of this machine",
        )
    return Site(name=site.name, rest=origin, mcp=origin + MCP_PATH, ui=site.ui, stand_in=True)
