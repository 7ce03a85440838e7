"""The one Protocol behind which every model stands, and the request and reply it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from fitter.jsonio import canonical, sha256
from fitter.records import UnusableReason


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What is asked of the model; None means: send nothing, take the provider's default.

    Attributes:
        temperature: sampling temperature.
        max_output_tokens: cap on generated tokens, reasoning included.
        reasoning_effort: provider's own word for it.
        timeout_s: deadline of one call, seconds.
    """

    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One call: messages, the answer's JSON Schema, settings.

    Attributes:
        messages: the conversation, system first.
        schema: JSON Schema of the answer.
        schema_name: the schema's name where a provider wants one.
        settings: what is asked of the model.
        row: which row the call is about. A book-keeping mark for ``replay:``, never sent and no part of
            :meth:`to_bytes`.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    schema_name: str
    settings: ModelSettings = ModelSettings()
    row: str | None = field(default=None, compare=False)

    def to_bytes(self) -> bytes:
        """Canonical bytes of everything that shapes the answer; the isolation proof compares these."""
        return canonical(
            {
                "messages": [[m.role, m.text] for m in self.messages],
                "schema": self.schema,
                "schema_name": self.schema_name,
                "temperature": self.settings.temperature,
                "max_output_tokens": self.settings.max_output_tokens,
                "reasoning_effort": self.settings.reasoning_effort,
            }
        ).encode("utf-8")

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of :meth:`to_bytes`, computed once: a row's request is shared by its runs."""
        return sha256(self.to_bytes())

    def follow_up(self, answer: str, complaint: str) -> ModelRequest:
        """The same request, continued: the model's answer and what was wrong with it."""
        more = (Message(role="assistant", text=answer), Message(role="user", text=complaint))
        return replace(self, messages=self.messages + more)

    def with_cap(self, tokens: int) -> ModelRequest:
        """The same request with another output cap."""
        return replace(self, settings=replace(self.settings, max_output_tokens=tokens))


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call; None where the provider did not say (unknown is not zero)."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The provider's envelope, read before the text (OUT-2).

    Attributes:
        outcome: ``ok`` when the envelope says there is a complete answer; else the reason there is none.
        text: the answer's text; empty unless there is some.
        model: the model name the provider returned.
        usage: tokens.
        raw: the response body as received, size-capped; kept in private storage.
        detail: what the provider said, for people; never a secret.
        latency_s: wall-clock seconds, transport retries included.
        faults: transport faults before the last answer, in order, e.g. ``("429", "timeout")``. Whether the provider
            charged for a call that ended in one of them is unknown (SC-1).
    """

    outcome: Literal["ok"] | UnusableReason
    text: str = ""
    model: str | None = None
    usage: Usage | None = None
    raw: bytes = b""
    detail: str = ""
    latency_s: float = 0.0
    faults: tuple[str, ...] = ()


class ModelClient(Protocol):
    """One model. Implementations retry transport failures within a bound and then answer ``unavailable``.

    A cause that no retry can mend (bad key, spent quota, unknown model) raises ``errors.SettingsError`` or
    ``errors.Outage`` with the provider's real reason.
    """

    @property
    def spec(self) -> str:
        """The user's spec, e.g. ``openai:gpt-5.4-mini`` or ``lexicon``."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that identifies the instrument, as JSON: part of every pass's key."""
        ...

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        """Makes one call. ``run`` is the pass's run index; models that sample on their own ignore it."""
        ...

    async def aclose(self) -> None:
        """Releases connections."""
        ...
