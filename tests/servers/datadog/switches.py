"""Every behaviour of the platform that public sources leave open or contradict each other on, as a switch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Switches:
    """Faults and variants of the stand-in; the defaults are the contract's best reading.

    Each attribute names the contract's paragraph in its comment.
    """

    # reads of the queue (3.1-3.4)
    annotation_schema_null: bool = False
    annotations_null: bool = False
    label_values: Literal["list", "map_id", "map_name", "map_bare"] = "list"
    categorical_as: Literal["list", "string"] = "list"
    expired_content: set[str] = field(default_factory=set)  # interaction ids whose content endpoint answers 404
    expired_traces: set[str] = field(default_factory=set)  # trace, span or session ids that no span tool finds

    # spans (3.6, 4.1)
    page_cap: int = 5000
    last_page: Literal["null", "no_after", "absent"] = "null"
    meta_status: Literal["done", "timeout"] = "done"
    repeat_on_page: bool = False  # a page starts with the last span of the page before
    hidden_from_search: set[str] = field(default_factory=set)  # span ids that only expand-spans shows (collapsed)
    redacted: set[str] = field(default_factory=set)  # span ids whose content reads "REDACTED"
    content_shape: Literal["objects", "flat"] = "objects"
    content_max_tokens: int | None = None  # server's own cap on a span-content reply
    span_details_broken: bool = False

    # auth, limits, errors (1, 2)
    api_key: str = "0123456789abcdef0123456789abcdef"
    app_key: str = "0123456789abcdef0123456789abcdef01234567"
    bearer: str = "stand-in-bearer-token"
    forbidden: bool = False  # right keys, missing permission
    limit_every: int = 0  # every n-th request is answered 429
    limit_first: int = 0  # the first n requests are answered 429
    limit_reset: str = "0"
    limit_headers: bool = True
    fail_first: int = 0  # the first n requests are answered with fail_status
    fail_status: int = 500
    fail_path: str = ""  # only requests whose path holds this text
    error_shape: Literal["jsonapi", "strings", "reason", "detail", "html"] = "jsonapi"
    echo_keys_in_errors: bool = False  # a gateway that prints what it was sent
    not_json: str = ""  # replies of paths holding this text are not JSON

    # evaluator registry (3.7, 3.8, 4.2, 8, 9)
    put_status: Literal[200, 204] = 200
    versioned: bool = False
    versioned_names: set[str] = field(default_factory=set)
    write_lost: bool = False  # 2xx, nothing stored
    write_refused: str = ""  # 400 with this detail
    lands_changed: dict[str, object] = field(
        default_factory=dict
    )  # dotted path -> value stored instead of what was sent
    list_lag: int = 0  # listings after a write that do not show it; -1 for ever
    read_lag: int = 0  # gets after a write that still answer 404
    wrapper_rule: Literal["by_provider", "require", "reject", "any"] = "by_provider"
    readback_wrapper: Literal["as_stored", "wrapped", "bare"] = "as_stored"
    readback_spelling: Literal["as_stored", "underscore", "hyphen"] = "as_stored"
    readback_extra: bool = True  # id "", created_at, created_by ...
    readback_nulls: bool = False  # optional fields come back as null
    allow_extra_properties: bool = False
    get_shape: Literal["nested", "evaluator", "data"] = "nested"
    list_shape: Literal["envelope", "evaluators", "data", "bare"] = "envelope"
    list_name_key: Literal["eval_name", "name"] = "eval_name"
    discard_draft: bool = False  # an unpublished UI draft blocks the write (4.2 e)

    # MCP (5)
    mcp_telemetry_required: bool = True
    mcp_structured: bool = False
    mcp_missing_tools: set[str] = field(default_factory=set)
    mcp_off: bool = False  # the endpoint does not exist (gov sites)
    mcp_old_path_only: bool = False
    mcp_tool_limit_first: int = 0  # the first n tool calls answer isError "Too many requests"
    mcp_sse: bool = False  # replies as an event stream instead of JSON
