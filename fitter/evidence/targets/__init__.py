"""What each platform's evaluator template can say, and how it resolves. A new target is one file and one entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitter.errors import SettingsError

if TYPE_CHECKING:
    from fitter.evidence.targets.base import Target

TARGETS = ("local", "datadog")


def open_target(name: str) -> Target:
    """The platform whose template the judge is fitted on.

    Raises:
        SettingsError: no such platform.
    """
    if name == "local":
        from fitter.evidence.targets.local import LocalTarget

        return LocalTarget()
    if name == "datadog":
        from fitter.evidence.targets.datadog import DatadogTarget

        return DatadogTarget()
    raise SettingsError(
        f"--publish-to {name!r} is not a platform fitter can publish to", hint=f"known: {', '.join(TARGETS)}"
    )
