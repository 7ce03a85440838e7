"""Per-provider quirks in one table: which schema keywords a structured-output mode takes, and what else it wants.

A keyword that is left out weakens only the provider's own constraint: our parser checks the whole contract on every
answer (OUT-1). What was left out is recorded in the instrument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

SchemaMode: TypeAlias = Literal["json_schema", "json_object", "text"]


@dataclass(frozen=True, kw_only=True)
class Quirks:
    """What one API dialect wants.

    Attributes:
        modes: the schema ladder, best first.
        dropped: schema keywords this dialect refuses.
        small_min_items: ``minItems`` is taken only as 0 or 1.
        all_required: every property must be listed as required.
        strict: the ``strict`` flag is sent beside the schema.
        token_parameters: names of the output cap, tried in this order.
        token_default: the cap to send when the user asked for none and the API demands one.
        effort: the dialect has a reasoning-effort parameter.
        sends_no_store: ask the provider not to keep the conversation.
        sends_seed: a seed per run index makes votes differ and runs repeatable.
    """

    modes: tuple[SchemaMode, ...] = ("json_schema", "json_object", "text")
    dropped: frozenset[str] = frozenset()
    small_min_items: bool = False
    all_required: bool = False
    strict: bool = False
    token_parameters: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    token_default: int | None = None
    effort: bool = True
    sends_no_store: bool = False
    sends_seed: bool = False


_OPENAI_DROPS = frozenset(
    {"uniqueItems", "minLength", "maxLength", "maxItems", "$schema", "$id", "title", "default", "examples"}
)
_ANTHROPIC_DROPS = _OPENAI_DROPS | {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minProperties",
    "maxProperties",
}  # fmt: skip

QUIRKS: Mapping[str, Quirks] = {
    "openai-responses": Quirks(
        dropped=_OPENAI_DROPS,
        all_required=True,
        strict=True,
        token_parameters=("max_output_tokens",),
        sends_no_store=True,
    ),
    "openai-chat": Quirks(
        dropped=_OPENAI_DROPS,
        all_required=True,
        strict=True,
        token_parameters=("max_completion_tokens", "max_tokens"),
    ),
    # Servers that only speak the format (vLLM, Ollama, llama.cpp, gateways) take plain JSON Schema and the older name.
    "compatible-chat": Quirks(strict=True, token_parameters=("max_tokens", "max_completion_tokens")),
    "compatible-responses": Quirks(strict=True, token_parameters=("max_output_tokens",), sends_no_store=True),
    "azure-chat": Quirks(
        dropped=_OPENAI_DROPS,
        all_required=True,
        strict=True,
        token_parameters=("max_completion_tokens", "max_tokens"),
    ),
    "local-chat": Quirks(token_parameters=("max_tokens",), effort=False, sends_seed=True),
    "anthropic-messages": Quirks(
        modes=("json_schema", "text"),
        dropped=_ANTHROPIC_DROPS,
        small_min_items=True,
        token_parameters=("max_tokens",),
        token_default=4096,
    ),
}


def fit_schema(schema: Mapping[str, Any], quirks: Quirks) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The schema as this dialect takes it, property order kept, and the keywords left out (sorted)."""
    left_out: set[str] = set()

    def walk(node: Any, *, names: bool) -> Any:
        """``names``: the keys of this object are property names, not keywords."""
        if isinstance(node, list | tuple):
            return [walk(item, names=False) for item in node]
        if not isinstance(node, Mapping):
            return node
        out: dict[str, Any] = {}
        for key, value in node.items():
            if not names and key in quirks.dropped:
                left_out.add(key)
                continue
            if not names and key == "minItems" and quirks.small_min_items and value not in (0, 1):
                left_out.add(key)
                continue
            if not names and key in ("enum", "const", "required"):
                out[key] = list(value) if isinstance(value, tuple) else value
                continue
            out[key] = walk(value, names=not names and key in ("properties", "$defs", "definitions"))
        if not names and quirks.all_required and isinstance(out.get("properties"), dict):
            missing = [name for name in out["properties"] if name not in out.get("required", [])]
            if missing:
                left_out.add("optional properties")
                out["required"] = list(out["properties"])
        return out

    fitted = walk(schema, names=False)
    assert isinstance(fitted, dict)
    return fitted, tuple(sorted(left_out))
