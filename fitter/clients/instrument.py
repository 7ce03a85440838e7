"""The instrument: what was settled with the provider before v0, and what would change it (OUT-2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from fitter.clients.quirks import Quirks, SchemaMode
from fitter.errors import SettingsError

Asked = Literal["not asked", "sent", "refused"]


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """How this model is called, settled once by the probe.

    Attributes:
        schema_mode: how the answer's form is asked for.
        token_parameter: name of the output cap; None: refused under every name.
        temperature: ``refused``: the provider takes none, so the judge is not temperature-pinned.
        effort: the same for the reasoning effort.
        store: the same for "do not keep this conversation".
        seed: the same for the seed per run.
        schema_left_out: schema keywords the dialect does not take.
        model_returned: the name the provider answered with; None while unknown.
        answered: the probe's last outcome: ``ok``, ``length``, ``refusal``, ...
        form_followed: the probe's answer was one JSON object with the schema's keys; None when there was no answer.
    """

    schema_mode: SchemaMode
    token_parameter: str | None
    temperature: Asked = "not asked"
    effort: Asked = "not asked"
    store: Asked = "not asked"
    seed: Asked = "not asked"
    schema_left_out: tuple[str, ...] = ()
    model_returned: str | None = None
    answered: str | None = None
    form_followed: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for ``identity`` and the record."""
        return {**asdict(self), "schema_left_out": list(self.schema_left_out), "schema_version": 1}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Instrument:
        """Reads :meth:`to_json` back.

        Raises:
            SettingsError: not a recorded instrument.
        """
        known = {f.name for f in fields(cls)}
        try:
            if value["schema_version"] != 1 or set(value) - {"schema_version"} != known:
                raise KeyError("schema_version")
            data = {k: value[k] for k in known}
            return cls(**{**data, "schema_left_out": tuple(data["schema_left_out"])})
        except (KeyError, TypeError) as fault:
            raise SettingsError(f"this is not a recorded instrument: {fault}") from None

    def sentences(self) -> list[str]:
        """What a reader of the report must know about the instrument, in plain language."""
        said = {
            "json_schema": "The answer's form is enforced by the provider's JSON Schema mode.",
            "json_object": "The provider takes no JSON Schema here: answers are only asked to be JSON objects.",
            "text": "The provider takes neither JSON Schema nor JSON mode: the prompt alone asks for the form.",
        }
        out = [said[self.schema_mode]]
        if self.schema_mode == "json_schema" and self.form_followed is False:
            out.append("The schema was accepted, but the probe's answer did not follow it.")
        if self.schema_left_out:
            out.append(f"Left out of the schema, checked by our parser: {', '.join(self.schema_left_out)}.")
        if self.temperature == "refused":
            out.append("Not temperature-pinned: the provider refuses the parameter.")
        elif self.temperature == "not asked":
            out.append("Not temperature-pinned: none was asked for, the provider's default applies.")
        else:
            out.append("The temperature was sent and accepted; that does not make the judge deterministic.")
        if self.effort == "refused":
            out.append("The reasoning effort asked for is refused by the provider: its default applies.")
        if self.token_parameter is None:
            out.append("The output cap is refused by the provider under every name we know: its default applies.")
        if self.store == "refused":
            out.append("The provider does not take our request not to store the conversation.")
        return out


def first_guess(
    quirks: Quirks, *, temperature: bool, effort: bool, schema_mode: SchemaMode | None, left_out: tuple[str, ...]
) -> Instrument:
    """The best rung of every ladder; the probe steps down from here."""
    return Instrument(
        schema_mode=schema_mode or quirks.modes[0],
        token_parameter=quirks.token_parameters[0],
        temperature="sent" if temperature else "not asked",
        effort="sent" if effort and quirks.effort else "refused" if effort else "not asked",
        store="sent" if quirks.sends_no_store else "not asked",
        seed="sent" if quirks.sends_seed else "not asked",
        schema_left_out=left_out,
    )


def step_down(instrument: Instrument, feature: str, quirks: Quirks, *, fixed_mode: bool) -> Instrument | None:
    """The instrument without the feature a provider refused, or None when there is nothing to step down to."""
    if feature == "schema":
        if fixed_mode or instrument.schema_mode not in quirks.modes:
            return None
        below = quirks.modes[quirks.modes.index(instrument.schema_mode) + 1 :]
        return replace(instrument, schema_mode=below[0], schema_left_out=()) if below else None
    if feature == "tokens":
        if instrument.token_parameter is None:
            return None
        names = quirks.token_parameters
        after = names[names.index(instrument.token_parameter) + 1 :]
        if not after and quirks.token_default is not None:
            return None  # this API demands one: it is the value that is refused
        return replace(instrument, token_parameter=after[0] if after else None)
    if getattr(instrument, feature, None) == "sent":
        refused: dict[str, Any] = {feature: "refused"}
        return replace(instrument, **refused)
    return None


def changed(then: Instrument, now: Instrument) -> list[str]:
    """What differs between two instruments in a way that voids comparability; empty when nothing does."""
    names = ("schema_mode", "token_parameter", "temperature", "effort", "seed", "schema_left_out", "model_returned")
    return [
        f"{name.replace('_', ' ')}: {getattr(then, name)!r} then, {getattr(now, name)!r} now"
        for name in names
        if getattr(then, name) != getattr(now, name)
    ]
