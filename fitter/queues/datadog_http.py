"""The REST client: an allow-list, bounded retries, and errors read in every shape the platform has.

GT-1: a client is made with the list of (method, path) it may send; anything else is refused before a byte leaves. The
lists below are all there is. Reads may use POST, because searches do.

Retries: 408, 429 and 5xx, and connections that break, at most ``retries`` times a call. A 429 waits as long as
``X-RateLimit-Reset`` says, and all threads that share the client wait with it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

from fitter.clients.options import is_loopback
from fitter.errors import FitterError, Outage, RunError, SettingsError
from fitter.jsonio import JSONFault, strict_loads
from fitter.queues.datadog_site import Access
from fitter.textsafe import one_line

V1: Final = "/api/v2/llm-obs/v1"
EVALUATORS: Final = "/api/unstable/llm-obs/config/evaluators/custom"
FACADE: Final = "/api/unstable/llm-obs-mcp/v1"

AllowList = tuple[tuple[str, str], ...]
_PART = r"(?!\.{1,2}(?:/|$))[^/]+"  # one segment, and none that climbs

# What a queue source may send (GT-1).
QUEUE_READS: Final[AllowList] = (
    ("GET", f"{V1}/annotation-queues"),
    ("GET", f"{V1}/annotation-queues/{_PART}/label-schema"),
    ("GET", f"{V1}/annotation-queues/{_PART}/annotated-interactions"),
    ("GET", f"{V1}/annotation-queues/{_PART}/annotated-interactions/{_PART}"),
    ("POST", f"{V1}/spans/events/search"),
)
# What a publisher may send: reads, and the one write. No delete, no queue path.
PUBLISH: Final[AllowList] = (
    ("GET", EVALUATORS),
    ("GET", f"{EVALUATORS}/{_PART}"),
    ("PUT", f"{EVALUATORS}/{_PART}"),
    ("GET", f"{V1}/integrations/{_PART}/accounts"),
    ("GET", f"{V1}/integrations/{_PART}/{_PART}/models"),
    ("POST", f"{V1}/spans/events/search"),
)

_MAX_BODY: Final = 512 << 20
_MAX_DEPTH: Final = 256  # a trace's tool calls nest deep; jsonio's default is for verdicts


class Refused(RunError):
    """The platform answered with a 4xx that no retry mends.

    Attributes:
        status: HTTP status.
        detail: the platform's words, redacted, on one line.
    """

    def __init__(self, message: str, *, status: int, detail: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how long a client tries again.

    Attributes:
        retries: tries after the first one, per call, for connections and 5xx.
        limited: tries after the first one, per call, for 429.
        base_s: first wait where the platform names none; doubles each time.
        longest_s: longest single wait.
        sleep: waits; replaced in tests.
    """

    retries: int = 3
    limited: int = 8
    base_s: float = 2.0
    longest_s: float = 120.0
    sleep: Callable[[float], None] = field(default=time.sleep)


def seg(text: str) -> str:
    """A path segment; a value can neither add a segment nor climb."""
    if text in ("", ".", ".."):
        raise SettingsError(f"{text!r} cannot stand in a Datadog path")
    return quote(text, safe="")


def error_text(status: int, body: str, access: Access) -> str:
    """What a reply says went wrong: strings or objects under ``errors``, ``detail``, ``reason``; else its beginning."""
    text = body
    try:
        found = strict_loads(body)
    except JSONFault:
        found = None
    if isinstance(found, dict):
        parts: list[str] = []
        errors = found.get("errors")
        for item in errors if isinstance(errors, list) else [errors, found]:
            if isinstance(item, dict):
                parts += [str(item[k]) for k in ("detail", "reason", "message", "title") if item.get(k)][:1]
            elif item:
                parts.append(str(item))
        text = "; ".join(parts) or body
    elif text.lstrip().startswith("<"):
        text = re.sub(r"<[^>]*>", " ", text)
    return access.redact.detail(one_line(text, 2000), 300) or f"status {status}"


class DatadogHTTP:
    """A synchronous client over one connection pool; safe to share between threads.

    Args:
        access: site and keys.
        allow: the requests it may send.
        retry: patience.
        timeout_s: deadline of one try.
    """

    def __init__(
        self, access: Access, allow: AllowList, *, retry: Retry | None = None, timeout_s: float = 30.0
    ) -> None:
        self.access = access
        self.retry = retry or Retry()
        self.limited = 0  # 429s met
        self._allow = tuple((method, re.compile(path)) for method, path in allow)
        self._lock = threading.Lock()
        self._wait_until = 0.0
        self._client = httpx.Client(
            base_url=access.site.rest,
            headers=access.rest_headers(),
            timeout=timeout_s,
            trust_env=not is_loopback(access.site.rest),  # a proxy would capture 127.0.0.1
            follow_redirects=False,  # the keys go nowhere but to the site
        )

    def close(self) -> None:
        """Releases connections."""
        self._client.close()

    def allowed(self, method: str, path: str) -> bool:
        """True when the allow-list holds this request."""
        return any(m == method and pattern.fullmatch(path) for m, pattern in self._allow)

    def call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, json: Any = None, what: str
    ) -> Any:
        """Sends one request and returns the parsed body, None for an empty one.

        Args:
            method: upper case.
            path: absolute, its segments already quoted (:func:`seg`).
            params: query.
            json: request body.
            what: what is being done, for messages: ``reading the queues``.

        Raises:
            RunError: the request is off the allow-list, or a reply is not JSON.
            SettingsError: 401, 403.
            Refused: any other 4xx.
            Outage: 429 and 5xx that outlast the retries, or no connection.
        """
        if not self.allowed(method, path):
            raise RunError(
                f"refused to send {method} {one_line(path)} to Datadog: it is not on this client's allow-list"
            )
        broken = limited = 0
        while True:
            self._hold()
            try:
                reply = self._client.request(method, path, params=params, json=json)
            except httpx.HTTPError as fault:
                broken += 1
                if broken > self.retry.retries:
                    reason = self.access.redact.detail(str(fault) or type(fault).__name__)
                    raise Outage(f"{what}: Datadog ({self._host}) cannot be reached: {reason}") from None
                self.retry.sleep(self._pause(broken))
                continue
            if reply.status_code == 429:
                limited += 1
                self.limited += 1
                if limited > self.retry.limited:
                    raise Outage(
                        f"{what}: Datadog's rate limit did not clear in {limited} tries",
                        hint="wait a few minutes, then resume",
                    )
                self._back_off(reply.headers.get("x-ratelimit-reset"), limited)
            elif reply.status_code == 408 or reply.status_code >= 500:
                broken += 1
                if broken > self.retry.retries:
                    said = error_text(reply.status_code, reply.text[:20_000], self.access)
                    raise Outage(f"{what}: Datadog answers {reply.status_code}: {said}")
                self.retry.sleep(self._pause(broken))
            else:
                return self._read(reply, what)

    @property
    def _host(self) -> str:
        return self._client.base_url.host

    def _pause(self, turn: int) -> float:
        return min(self.retry.base_s * 2.0 ** (turn - 1), self.retry.longest_s)

    def _back_off(self, reset: str | None, turn: int) -> None:
        """Until when everybody waits: the platform's word, else doubling."""
        try:
            wait = min(max(float(reset or ""), 0.0), self.retry.longest_s)
        except ValueError:
            wait = self._pause(turn)
        if wait != wait:  # "nan" is a float too
            wait = self._pause(turn)
        # A limit that names no wait and stays is still given room from the third time on.
        if turn > 2:
            wait = max(wait, min(0.1 * turn, self.retry.longest_s))
        with self._lock:
            self._wait_until = max(self._wait_until, time.monotonic() + wait)

    def _hold(self) -> None:
        with self._lock:
            wait = self._wait_until - time.monotonic()
        if wait > 0:
            self.retry.sleep(wait)

    def _read(self, reply: httpx.Response, what: str) -> Any:
        status = reply.status_code
        if status >= 300:
            raise refusal(status, reply.text[:20_000], self.access, what)
        if len(reply.content) > _MAX_BODY:
            raise RunError(f"{what}: Datadog's reply is larger than {_MAX_BODY >> 20} MB")
        text = reply.text
        if not text.strip():
            return None  # a success with an empty body is normal
        return parse(text, what)


def parse(text: str, what: str) -> Any:
    """A reply's JSON.

    Raises:
        RunError: not JSON; typically a proxy's login page.
    """
    try:
        return strict_loads(text, max_depth=_MAX_DEPTH)
    except JSONFault as fault:
        raise RunError(
            f"{what}: the reply is not JSON ({fault.code})",
            hint="a proxy or a wrong DD_SITE often answers with a web page",
        ) from None


def refusal(status: int, body: str, access: Access, what: str) -> FitterError:
    """The error for a status that is no success and no retry mends."""
    said = error_text(status, body, access)
    if status == 401:
        return SettingsError(
            f"{what}: Datadog does not accept DD_API_KEY on {access.site.name} ({said})",
            hint="check the key and DD_SITE: a key is valid on one site only",
        )
    if status == 403:
        return SettingsError(
            f"{what}: the application key may not do this on {access.site.name} ({said})",
            hint="it needs llm_observability_read, and llm_observability_write to publish (over MCP also mcp_read, "
            "mcp_write)",
        )
    if status < 400:
        return RunError(f"{what}: Datadog redirects ({status}); a redirect is not followed with keys")
    return Refused(f"{what}: Datadog answers {status}: {said}", status=status, detail=said)
