"""How long a provider asks us to wait: Retry-After and the rate-limit headers of each family. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|h|m|s))")
_LONGEST = 10 * 365 * 86_400.0

# (remaining, reset) header pairs; OpenAI's resets are durations, Anthropic's are instants.
_PAIRS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return min(value, _LONGEST) if math.isfinite(value) and value >= 0 else None


def _instant(text: str) -> datetime | None:
    """An HTTP date or an RFC 3339 instant."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def duration(text: str) -> float | None:
    """Seconds of ``1s``, ``6m0s``, ``120ms``, ``1h2m``, or a bare number; None when it is none of these."""
    text = text.strip().lower()
    if not text or len(text) > 40:
        return None
    bare = _number(text)
    if bare is not None:
        return bare
    pieces = _DURATION.findall(text)
    if not pieces or "".join(a + b for a, b in pieces) != text:
        return None
    unit = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return min(sum(float(a) * unit[b] for a, b in pieces), _LONGEST)


def _until(text: str, headers: Mapping[str, str]) -> float | None:
    """Seconds until an instant, by the server's own clock where it says what time it is."""
    then = _instant(text.strip()[:60])
    if then is None:
        return None
    now = _instant(headers.get("date", "")[:60]) or datetime.now(UTC)
    return min(max(0.0, (then - now).total_seconds()), _LONGEST)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` ask for; None where absent or nonsense."""
    ms = headers.get("retry-after-ms")
    if ms is not None:
        value = _number(ms.strip()[:40])
        if value is not None:
            return value / 1000.0
    text = headers.get("retry-after")
    if text is None:
        return None
    value = _number(text.strip()[:40])
    return value if value is not None else _until(text, headers)


def exhausted_for(headers: Mapping[str, str]) -> float | None:
    """Seconds until the longest of the exhausted limits (remaining 0) resets; None when none is exhausted."""
    waits: list[float] = []
    for remaining, reset in _PAIRS:
        left, text = headers.get(remaining), headers.get(reset)
        if left is None or text is None or _number(left.strip()[:40]) != 0.0:
            continue
        wait = duration(text)
        if wait is None:
            wait = _until(text, headers)
        if wait is not None:
            waits.append(wait)
    return max(waits) if waits else None


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """What a refused call is asked to wait: Retry-After first, else an exhausted limit's reset."""
    asked = retry_after(headers)
    return asked if asked is not None else exhausted_for(headers)
