"""One model call as the journal keeps it, and the key that says "this call was already paid for"."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fitter.clients.base import Reply, Usage
from fitter.jsonio import sha256
from fitter.records import UnusableReason

Role: TypeAlias = Literal["judge", "drafter", "describer", "proposer"]

# The first bytes of a response body that the journal keeps; its digest and length always cover the whole body.
RAW_CAP = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """One call to a model, with everything needed to use its answer again and to account for it.

    Attributes:
        key: :func:`call_key`, 64 hex digits.
        run_id: the fit it was made for.
        phase: what it was made for: ``v0``, ``cand:003``, ``holdout:v0``, ``draft``, ``describe:003``, ``probe`` ...
        role: who was asked.
        row: row id; empty for calls that are not about one row.
        run: 0-based run index of the pass.
        attempt: 1, or 2 for the one retry.
        spec: the client's spec, as the user gave it.
        instrument: digest of the client's identity.
        request_hash: hex SHA-256 of the request's bytes.
        outcome: the envelope: ``ok`` or why there is no answer.
        fault: why this attempt gives no verdict (envelope or text); None when it gives one, or was not read.
        model: model name the provider returned.
        text: the answer's text, whole.
        detail: what the provider said, for people.
        raw: response body, at most :data:`RAW_CAP` bytes; ``raw_sha256`` and ``raw_bytes`` cover the whole body.
        input_tokens, cached_tokens, output_tokens, reasoning_tokens: None where the provider did not say.
        latency_s: seconds.
        at: wall-clock time, Unix seconds. Information only: nothing is ordered or decided by it.
    """

    key: str
    run_id: str
    phase: str
    role: Role
    row: str = ""
    run: int = 0
    attempt: int = 1
    spec: str
    instrument: str
    request_hash: str
    outcome: Literal["ok"] | UnusableReason
    fault: UnusableReason | None = None
    model: str | None = None
    text: str = field(default="", repr=False)
    detail: str = field(default="", repr=False)
    raw: bytes = field(default=b"", repr=False)
    raw_sha256: str = ""
    raw_bytes: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    latency_s: float = 0.0
    at: float = 0.0

    @classmethod
    def of(
        cls,
        reply: Reply,
        *,
        key: str,
        run_id: str,
        phase: str,
        role: Role,
        spec: str,
        instrument: str,
        request_hash: str,
        at: float,
        row: str = "",
        run: int = 0,
        attempt: int = 1,
        fault: UnusableReason | None = None,
    ) -> CallRecord:
        """The record of a reply; see the attributes for the rest."""
        usage = reply.usage or Usage()
        return cls(
            key=key,
            run_id=run_id,
            phase=phase,
            role=role,
            row=row,
            run=run,
            attempt=attempt,
            spec=spec,
            instrument=instrument,
            request_hash=request_hash,
            outcome=reply.outcome,
            fault=fault,
            model=reply.model,
            text=reply.text,
            detail=reply.detail,
            raw=reply.raw,
            raw_sha256=sha256(reply.raw) if reply.raw else "",
            raw_bytes=len(reply.raw),
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            output_tokens=usage.output,
            reasoning_tokens=usage.reasoning,
            latency_s=reply.latency_s,
            at=at,
        )

    def same_answer(self, other: CallRecord) -> bool:
        """True when both hold the same answer to the same request; clocks and latencies do not count."""
        return (
            self.request_hash == other.request_hash
            and self.outcome == other.outcome
            and self.text == other.text
            and self.model == other.model
        )


def call_key(
    *, run_id: str, request_hash: str, instrument: str, parser_version: str, row: str, run: int, attempt: int
) -> str:
    """The identity of one call: hex SHA-256 over everything that could change its answer or its meaning.

    The run id is part of it, so that a new fit measures anew; the run index is, so that repeated passes are separate
    measurements; the phase is not, so that the same prompt on the same row is never paid for twice within a fit.

    Args:
        run_id: the fit.
        request_hash: hex SHA-256 of the full request bytes.
        instrument: digest of the client's identity (model, parameters, schema mode).
        parser_version: version of what reads the answer.
        row: row id, or empty.
        run: run index.
        attempt: 1 or 2.
    """
    # One text for one identity: the row id alone may hold line breaks, and it stands last.
    parts = (run_id, request_hash, instrument, parser_version, str(run), str(attempt), row)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
