"""``datadog:QUEUE_ID`` and ``datadog:"queue name"``: an annotation queue as a read-only label source (GT-1).

The reader turns what the platform says into bundle interactions and hands them to the bundle's own conversion, so the
conflicting shapes of ``label_values`` are understood in one place. Nothing falls back silently: the backend is the
user's choice, and each row's content names the roads that were tried.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from fitter.errors import SettingsError
from fitter.queues.datadog_reader import SPAN_KINDS, QueueOptions, Reader
from fitter.queues.datadog_site import Access, access_from
from fitter.queues.datadog_spans import verdict_of
from fitter.queues.source import LabelSource, RawQueue
from fitter.queues.spans import normal_form
from fitter.textsafe import one_line

__all__ = ["DatadogQueue", "QueueOptions", "fetch_verdicts", "open_queue", "window"]

PREFIX: Final = "datadog:"
_SINCE = re.compile(r"(?:now-)?([1-9][0-9]{0,3})([hdw])")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2}))?")


def open_queue(spec: str, env: Mapping[str, str], options: QueueOptions | None = None) -> LabelSource:
    """The source behind ``datadog:QUEUE``; nothing is sent before :meth:`DatadogQueue.read`.

    Args:
        spec: as typed, with or without the prefix; a queue id or a queue's name, which may stand in quotes.
        env: DD_API_KEY, DD_APP_KEY or DD_APPLICATION_KEY, DD_SITE, DD_LLMOBS_OVERRIDE_ORIGIN.
        options: see :class:`QueueOptions`.

    Raises:
        SettingsError: no queue named, keys missing, a site or backend that does not exist.
    """
    options = options or QueueOptions()
    name = spec.removeprefix(PREFIX).strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1].strip()
    if not name:
        raise SettingsError("no queue is named", hint='write datadog:QUEUE_ID or datadog:"queue name"')
    options = replace(options, since=window(options.since))
    return DatadogQueue(name, access_from(env), options)


def window(since: str) -> str:
    """The start of the time window as the platform reads it.

    Raises:
        SettingsError: neither a duration nor an ISO date.
    """
    text = since.strip()
    if found := _SINCE.fullmatch(text):
        number, unit = int(found[1]), found[2]
        return f"now-{number * 7 if unit == 'w' else number}{'d' if unit == 'w' else unit}"
    if _ISO.fullmatch(text):
        return text if "T" in text else f"{text}T00:00:00Z"
    raise SettingsError(f"--since {one_line(since, 40)!r} is no time", hint="write 90d, 36h, 12w or a date: 2026-01-31")


class DatadogQueue:
    """One annotation queue (implements LabelSource)."""

    def __init__(self, queue: str, access: Access, options: QueueOptions) -> None:
        self._queue = queue
        self._access = access
        self._options = options

    def read(self) -> RawQueue:
        """Reads schema, interactions and contents once.

        Raises:
            SettingsError: not authenticated, not permitted, no such backend on the site.
            UserError: no queue of that name, or several.
            Outage: the platform does not answer.
            RunError: a reply that cannot be read.
        """
        with Reader(self._access, self._options) as reader:
            return reader.queue(self._queue)


def fetch_verdicts(
    name: str,
    rows: Iterable[tuple[str, str]],
    *,
    env: Mapping[str, str],
    options: QueueOptions | None = None,
) -> dict[str, Mapping[str, Any]]:
    """An enabled evaluator's verdicts on labelled rows, for ``fidelity``.

    Args:
        name: evaluator.
        rows: (what was labelled: ``trace``, ``span`` or ``session``; content id).
        env, options: as for :func:`open_queue`.

    Returns:
        Content id → ``{"value", "assessment"?, "reasoning"?, "status"?, "tags"?}``; rows without a verdict are absent.
    """
    options = options or QueueOptions()
    options = replace(options, since=window(options.since))
    with Reader(access_from(env), options) as reader:
        wanted = sorted({(kind, content_id) for kind, content_id in rows if kind in SPAN_KINDS})
        out: dict[str, Mapping[str, Any]] = {}
        counts: Counter[str] = Counter()
        for (kind, content_id), found in zip(wanted, reader.contents(wanted), strict=True):
            held = reader.content(kind, content_id, found, counts)[0]
            verdict = None if held is None else _verdict(kind, held, content_id, name)
            if verdict is not None:
                out[content_id] = verdict
        return out


def _verdict(kind: str, held: Mapping[str, Any], content_id: str, name: str) -> Mapping[str, Any] | None:
    shape: Literal["span", "trace", "session"] = "span" if kind == "span" else "trace" if kind == "trace" else "session"
    content = normal_form(shape, held, content_id, Counter())[0]
    return None if content is None else verdict_of(content, name)
