"""From settings to the registry of the platform they name. A new platform is its own files and one entry here."""

from __future__ import annotations

import os

from fitter.errors import SettingsError
from fitter.evidence.targets import TARGETS
from fitter.publishing.publisher import Publisher
from fitter.settings import DATADOG, DatadogTable, FitSettings
from fitter.textsafe import one_line
from fitter.workspace import Workspace


def open_publisher(settings: FitSettings, workspace: Workspace) -> Publisher:
    """The registry of the platform that the settings name.

    Raises:
        SettingsError: no such platform, or one that needs a backend or keys.
    """
    name = settings.publish_to or "local"
    if name == "local":
        from fitter.publishing.local import LocalPublisher

        return LocalPublisher(workspace)
    if name == DATADOG:
        from fitter.publishing.datadog import PublishOptions
        from fitter.publishing.datadog import open_publisher as opened
        from fitter.queues.datadog_mcp import fair_use

        if settings.backend is None:
            raise SettingsError(
                "publishing to Datadog goes over REST or over MCP, and which one is your choice",
                hint="add --backend rest or --backend mcp (docs/datadog.md says how they differ)",
            )
        asked = settings.datadog or DatadogTable()
        measured = settings.judge_options.get("temperature")
        options = PublishOptions(
            sampling_percentage=asked.sampling_percentage,
            filter=asked.filter,
            root_spans_only=asked.root_spans_only,
            temperature=measured if asked.temperature is None else asked.temperature,
            max_tokens=asked.max_tokens,
            mcp_rate=fair_use(os.environ),
        )
        return opened(os.environ, settings.backend, options)
    raise SettingsError(
        f"--publish-to {one_line(name, 60)!r} is not a platform fitter can publish to",
        hint=f"known: {', '.join(TARGETS)}",
    )
