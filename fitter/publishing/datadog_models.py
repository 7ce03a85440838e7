"""Which model the organisation can really call: integration accounts, their models, and evaluators that already run.

A write that is accepted is not yet an evaluator that can run. What the platform says about accounts and models is
checked before any spend; where it says nothing, that is a note for the report, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitter.errors import SettingsError
from fitter.evidence.targets.datadog import INTEGRATIONS, DatadogTarget, through
from fitter.publishing.datadog_wire import plain
from fitter.textsafe import one_line


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """Where the judge will run.

    Attributes:
        provider: integration, in the integrations API's spelling.
        model: the vendor's model name.
        account: ``{"account_id", "bedrock"?, "vertex_ai"?}``, None where none is known.
        notes: what could not be verified.
    """

    provider: str
    model: str
    account: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


def judge_of(spec: str) -> Hosted:
    """Provider and model of a judge spec; no network.

    Raises:
        SettingsError: Datadog cannot run this judge.
    """
    why = DatadogTarget().hosts(spec)
    if why is not None:
        raise SettingsError(why, hint="choose another --judge, or --publish-to local")
    kind, _, rest = spec.partition(":")
    model, server = through(rest)
    notes: tuple[str, ...] = ()
    if server is not None and kind != "azure":  # an Azure judge is a deployment at a URL, and so is its integration
        notes = (
            f"the judge is measured through {one_line(server, 120)}; Datadog does not call that server but the "
            f"{INTEGRATIONS[kind]} integration's own {one_line(model, 60)}: that both answer alike is for you to know",
        )
    return Hosted(provider=INTEGRATIONS[kind], model=model, notes=notes)


def choose(
    judge: Hosted, accounts: Sequence[Mapping[str, Any]] | None, documents: Sequence[Mapping[str, Any]]
) -> Hosted:
    """The account that can call the model.

    Args:
        judge: from :func:`judge_of`.
        accounts: the integration's accounts with their ``models``, None where the platform does not say.
        documents: existing evaluators.

    Raises:
        SettingsError: no account, the model is in none of them, or it cannot answer by a schema.
    """
    notes = [*judge.notes, *(note for document in documents for note in _trouble(document))]
    used = _used(judge, documents)
    if accounts is None:
        notes.append(
            f"the platform did not list its {judge.provider} accounts; that it can call {judge.model} is unverified"
            + ("" if used is None else f" (an existing evaluator uses account {used['account_id']})")
        )
        return Hosted(provider=judge.provider, model=judge.model, account=used, notes=tuple(notes))
    if not accounts:
        raise SettingsError(
            f"this Datadog organisation has no {judge.provider} integration, so it cannot run {judge.model}",
            hint="connect one under /llm/settings/integrations, or choose a --judge of a provider that is connected",
        )
    offers = [(account, model) for account in accounts for model in account.get("models") or []]
    fitting = [(account, model) for account, model in offers if judge.model in _names(account, model)]
    silent = [account for account in accounts if not account.get("models")]
    if fitting:
        account, model = next((pair for pair in fitting if used and _key(pair[0]) == used["account_id"]), fitting[0])
        _refuse_unfit(judge, model)
    elif silent:
        account = next((a for a in silent if used and _key(a) == used["account_id"]), silent[0])
        notes.append(f"the {judge.provider} account {_key(account)} lists no models; {judge.model} is unverified")
    else:
        seen = sorted({str(model.get("model_id") or model.get("id")) for _, model in offers})
        raise SettingsError(
            f"no {judge.provider} account of this Datadog organisation offers the model {one_line(judge.model, 60)!r}",
            hint=f"it offers: {', '.join(seen[:20])}",
        )
    return Hosted(provider=judge.provider, model=judge.model, account=_account(account), notes=tuple(notes))


def _refuse_unfit(judge: Hosted, model: Mapping[str, Any]) -> None:
    if model.get("has_access") is False:
        raise SettingsError(
            f"the {judge.provider} account has no access to {judge.model}", hint="see the vendor's console"
        )
    if model.get("json_schema") is False:
        raise SettingsError(
            f"Datadog cannot have {judge.model} answer by a schema (structured output)", hint="choose another --judge"
        )


def _key(account: Mapping[str, Any]) -> str:
    return str(account.get("account_id") or account.get("id"))


def _account(account: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"account_id": _key(account)}
    if account.get("account_region"):
        out["bedrock"] = {"region": account["account_region"]}
    vertex = account.get("vertex_ai_metadata")
    if isinstance(vertex, Mapping):
        out["vertex_ai"] = {k: vertex[k] for k in ("project", "location") if vertex.get(k)}
    return out


def _names(account: Mapping[str, Any], model: Mapping[str, Any]) -> set[str]:
    """What a model may be called; at Azure the deployment is the name."""
    azure = account.get("azure_openai_metadata")
    deployment = azure.get("deployment_id") if isinstance(azure, Mapping) else None
    return {str(name) for name in (model.get("model_id"), model.get("id"), deployment) if name}


def _used(judge: Hosted, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The account that most existing evaluators of this provider use; a broken one last."""
    counts: dict[str, int] = {}
    for document in documents:
        provider = document.get("llm_provider")
        if isinstance(provider, Mapping) and plain(provider.get("integration_provider")) == plain(judge.provider):
            key = provider.get("integration_account_id")
            if key:
                counts[str(key)] = counts.get(str(key), 0) + (0 if list(_trouble(document)) else 1)
    if not counts:
        return None
    return {"account_id": min(counts, key=lambda key: (-counts[key], key))}


def _trouble(document: Mapping[str, Any]) -> list[str]:
    """An existing evaluator that says of itself that its integration is broken."""
    out = []
    for key in ("error", "last_error"):
        value = document.get(key)
        text = value.get("message") if isinstance(value, Mapping) else value
        if isinstance(text, str) and text.strip():
            out.append(
                f"the existing evaluator {one_line(str(document.get('eval_name')), 60)} reports: {one_line(text)}"
            )
    return out
