"""Publishing to Datadog: read first, write once, disabled; what counts is what is read back (PU-1..4).

The generic proof (write, read back, compare, see it listed, receipt) is ``verify.publish_and_verify``; this is the
platform's half. Neither surface's client can send anything but ``enabled: false``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fitter.errors import PublishError, RunError, SettingsError
from fitter.evidence.targets.datadog import RENDERER_DIFFERENCES
from fitter.publishing.datadog_models import Hosted, choose, judge_of
from fitter.publishing.datadog_reach import reach, shown_filter
from fitter.publishing.datadog_surface import TRAFFIC_DAYS, McpSurface, RestSurface, Surface, variables
from fitter.publishing.datadog_wire import (
    READ_ONLY,
    comparable,
    document,
    is_disabled,
    ladder,
    owner,
    refuse_lossy,
    unwrap,
)
from fitter.publishing.fidelity import DeployedEvaluator
from fitter.publishing.publisher import EvaluatorSpec, Publisher
from fitter.queues.datadog_http import PUBLISH, DatadogHTTP, Refused, Retry
from fitter.queues.datadog_mcp import FAIR_USE, McpTools
from fitter.queues.datadog_site import Access, access_from
from fitter.queues.datadog_tools import PUBLISH_TOOLS
from fitter.records import Row
from fitter.textsafe import is_blank, one_line

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,100}")
_SCHEMA_REFUSED: Final = "invalid byop output schema"


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """What the user may ask for beyond the judge; None keeps what is stored, or the default of a new evaluator.

    Attributes:
        sampling_percentage: above 0, at most 100; default of a new evaluator: 10 for span, 5 for trace and session.
        filter: span query that decides where it fires; default for trace: root spans.
        root_spans_only: fire on root spans only; default for trace: true.
        temperature: default of a new evaluator: 0.
        max_tokens: cap on the answer.
        retry: patience with the platform.
        mcp_rate: (calls, seconds) of the MCP fair-use limit, None for none.
    """

    sampling_percentage: float | None = None
    filter: str | None = None
    root_spans_only: bool | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    retry: Retry = field(default_factory=Retry)
    mcp_rate: tuple[int, float] | None = FAIR_USE

    def __post_init__(self) -> None:
        if self.sampling_percentage is not None and not 0 < self.sampling_percentage <= 100:
            raise SettingsError("sampling is above 0 and at most 100 percent")


def open_publisher(
    env: Mapping[str, str], backend: Literal["rest", "mcp"] = "rest", options: PublishOptions | None = None
) -> Publisher:
    """The publisher of a Datadog organisation; nothing is sent before its first verb.

    Args:
        env: DD_API_KEY, DD_APP_KEY or DD_APPLICATION_KEY, DD_SITE, DD_LLMOBS_OVERRIDE_ORIGIN.
        backend: ``rest`` (nested documents) or ``mcp`` (flat); the user's choice, there is no fallback.
        options: see :class:`PublishOptions`.

    Raises:
        SettingsError: keys missing, a site or backend that does not exist.
    """
    options = options or PublishOptions()
    access = access_from(env)
    if backend == "rest":
        surface: Surface = RestSurface(DatadogHTTP(access, PUBLISH, retry=options.retry))
    elif backend == "mcp":
        surface = McpSurface(McpTools(access, PUBLISH_TOOLS, retry=options.retry, rate=options.mcp_rate))
    else:
        raise SettingsError(f"no backend {one_line(str(backend), 20)!r}", hint="use rest or mcp")
    return DatadogPublisher(access, surface, backend, options)


class DatadogPublisher:
    """Implements Publisher; beyond it ``notes``, :meth:`traffic` and :meth:`variables_in_use` feed the report.

    Attributes:
        notes: what a report must say about this publication (PU-5), in order, each once.
    """

    def __init__(self, access: Access, surface: Surface, backend: str, options: PublishOptions) -> None:
        self._access = access
        self._surface = surface
        self._backend = backend
        self._options = options
        self._hosted: dict[str, Hosted] = {}
        self.notes: list[str] = []

    @property
    def name(self) -> str:
        """``datadog``."""
        return "datadog"

    @property
    def rehearsal(self) -> bool:
        """False: the platform runs what is enabled there."""
        return False

    @property
    def page(self) -> str:
        """The site's evaluations page."""
        return self._access.site.evaluations_page

    def close(self) -> None:
        """Releases connections."""
        self._surface.close()

    def check(self, name: str, app: str, judge: str) -> None:
        """See Publisher: name, owner, switch, and a model that the organisation can call.

        Raises:
            SettingsError: see Publisher; also no integration, or a model that no account offers.
            Outage: the platform does not answer.
        """
        _named(name)
        if is_blank(app) or one_line(app) != app:
            raise SettingsError(f"{one_line(app)!r} is not an app name", hint="name the application with --app")
        hosted = judge_of(judge)
        existing = self.get(name)
        if existing is not None:
            self._refuse_foreign(existing, name, app)
            if self._backend == "mcp":
                # Now, not after the spend: that surface cannot keep every field.
                refuse_lossy(existing)
        hosted = choose(hosted, self._surface.accounts(hosted.provider), self._surface.documents(app))
        self._hosted[judge] = hosted
        for note in hosted.notes:
            self._note(note)
        if warning := self.traffic(app):
            self._note(warning)

    def config(self, spec: EvaluatorSpec, existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """See Publisher; no network. The account is known after :meth:`check`.

        Raises:
            SettingsError: the existing evaluator is enabled or another app's, or Datadog cannot run the judge.
        """
        if existing is not None:
            self._refuse_foreign(existing, spec.name, spec.app)
        hosted = self._hosted.get(spec.judge) or judge_of(spec.judge)
        asked = self._options
        return document(
            spec,
            existing,
            provider=hosted.provider,
            model=hosted.model,
            account=hosted.account,
            target={
                "sampling_percentage": asked.sampling_percentage,
                "filter": asked.filter,
                "root_spans_only": asked.root_spans_only,
            },
            params={"temperature": asked.temperature, "max_tokens": asked.max_tokens},
        )

    def get(self, name: str) -> Mapping[str, Any] | None:
        """See Publisher: nested attributes without the server's own (a receipt holds no clock and no mail address)."""
        found = self._surface.get(_named(name))
        return None if found is None else {k: v for k, v in found.items() if k not in READ_ONLY}

    def put(self, name: str, config: Mapping[str, Any]) -> None:
        """See Publisher: reads again, then writes; tries another form where the platform calls the schema invalid.

        Raises:
            PublishError: the platform refused, with whether anything landed all the same.
            SettingsError: somebody enabled or took over the evaluator since it was checked, or the flat surface would
                lose a field.
        """
        before = self.get(name)
        if before is not None:
            self._refuse_foreign(before, name, owner(config))
        said = ""
        for step, attempt in ladder(config):
            try:
                self._surface.write(name, attempt)
            except Refused as fault:
                said = fault.detail
                if _SCHEMA_REFUSED in said.lower():
                    continue
                break
            if step != "as measured":
                self._note(f"the platform took the evaluator only {step}")
            return
        raise PublishError(f"the platform refused the write: {said}; {self._landed(name, before)}", hint=_hint(said))

    def listing(self, app: str) -> Sequence[Mapping[str, Any]]:
        """See Publisher: ``name, app, enabled`` of each."""
        return self._surface.listing(app)

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """See Publisher."""
        return comparable(config, account=any(h.account is not None for h in self._hosted.values()))

    # for the report
    def traffic(self, app: str) -> str | None:
        """A warning when the app emitted no span lately: an enabled evaluator would never fire."""
        if self._surface.has_traffic(app):
            return None
        return (
            f"the app {one_line(app)!r} emitted no spans in the last {TRAFFIC_DAYS} days: an enabled evaluator would "
            "have nothing to score (experiments do not fire online evaluators)"
        )

    def deployed(self, spec: EvaluatorSpec, config: Mapping[str, Any], rows: Sequence[Row]) -> DeployedEvaluator:
        """What the platform will do with it, for the fidelity gap (PU-5); asks for traffic, nothing else.

        Args:
            spec: what was published.
            config: the document as sent or read back.
            rows: the labelled rows that the judge was measured on.
        """
        found = reach(config, rows)
        kept = config.get("llm_judge_config")
        bare = unwrap(kept.get("output_schema")) if isinstance(kept, Mapping) else None
        sent = kept.get("inference_params") if isinstance(kept, Mapping) else None
        sent = sent if isinstance(sent, Mapping) else {}
        taken = bare.get("properties", {}) if isinstance(bare, Mapping) else {}
        provider = config.get("llm_provider")
        model = provider.get("model_name") if isinstance(provider, Mapping) else ""
        return DeployedEvaluator(
            publisher=self.name,
            scope=spec.scope,
            rehearsal=False,
            judge=f"{spec.judge.partition(':')[0]}:{model}",
            renderer_differences=RENDERER_DIFFERENCES,
            refused_output_fields=tuple(sorted(set(spec.contract.schema["properties"]) - set(taken))),
            filter=shown_filter(config),
            hidden_rows=None if found.unknown else len(found.hidden),
            traffic=self._surface.has_traffic(spec.app),
            hidden=found.hidden,
            unknown=found.unknown,
            sampling=_percent(config),
            parameters={name: _figure(sent.get(name)) for name in ("temperature", "max_tokens")},
            static_system=True,
        )

    def variables_in_use(self, app: str) -> Mapping[str, int]:
        """Template variables of existing evaluators → in how many; those are known to resolve on the platform."""
        return variables(self._surface.documents(app))

    # inside
    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _refuse_foreign(self, existing: Mapping[str, Any], name: str, app: str) -> None:
        """PU-3. The name is the key of the whole organisation: a write for our app would replace another app's."""
        if not is_disabled(existing):
            raise SettingsError(
                f"the evaluator {name!r} is enabled on Datadog; a write would switch it off",
                hint="choose another --name, or disable it yourself first",
            )
        if owner(existing) != app:
            raise SettingsError(
                f"the evaluator {name!r} belongs to the app {one_line(owner(existing))!r}, not to {one_line(app)!r}",
                hint="names are unique in the whole organisation: choose another --name",
            )

    def _landed(self, name: str, before: Mapping[str, Any] | None) -> str:
        try:
            after = self.get(name)
        except (RunError, SettingsError):
            return "whether anything landed could not be read"
        if after is None:
            return "nothing landed"
        if before is not None and comparable(before, account=True) == comparable(after, account=True):
            return "the stored evaluator is unchanged"
        return "the stored evaluator CHANGED all the same: look at it before anything else"


def _figure(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _percent(config: Mapping[str, Any]) -> float | None:
    target = config.get("target")
    return _figure(target.get("sampling_percentage")) if isinstance(target, Mapping) else None


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"{one_line(name)!r} is not an evaluator name", hint="use 1 to 100 of the characters a-z, A-Z, 0-9, _ and -"
        )
    return name


def _hint(said: str) -> str | None:
    low = said.lower()
    if "versioned" in low:
        return "this site edits evaluators in the web interface only: create it there from the config"
    if "draft" in low:
        return "an unpublished draft blocks the write: publish or discard it in the web interface"
    if _SCHEMA_REFUSED in low:
        return "both forms of the output schema were refused: create the evaluator in the web interface from the config"
    return None
