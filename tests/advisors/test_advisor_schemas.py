"""An advisor's schema says the bounds its parser holds to: a model whose form is enforced cannot write without end.

Found with SmolLM2 as drafter: under a schema without bounds it repeated itself until the output cap, twice, and no fit
got a first draft.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fitter.advisors import Desk, ModelChecker, ModelDescriber, ModelDrafter, ModelProposer
from fitter.advisors.describer import MOST_BUCKETS
from fitter.advisors.drafter import MOST_CRITERIA
from fitter.clients.quirks import QUIRKS, fit_schema
from fitter.loop.strategies import NoAdvice
from tests.advisors.kit import NUMBER, change, desk, draft_brief, error, proposal_brief

Path_ = tuple[str | int, ...]
ERRORS = [error(1), error(2)]
DESCRIBED = {"errors": [{"n": 1, "description": "vague"}, {"n": 2, "description": "late"}]}

# name → (asks a desk, the whole answer of the last question, earlier answers)
ROLES: Mapping[str, tuple[Callable[[Desk], Any], dict[str, Any], tuple[Any, ...]]] = {
    "drafter": (
        lambda made: ModelDrafter(made).draft(draft_brief()),
        {"task": "Grade.", "criteria": [{"label": "bad", "text": "It hedges."}], "otherwise": "good"},
        (),
    ),
    "drafter of a number": (
        lambda made: ModelDrafter(made).draft(draft_brief(NUMBER)),
        {"task": "Grade.", "criteria": [{"label": "lower", "text": "It hedges."}], "otherwise": "3"},
        (),
    ),
    "describer": (lambda made: ModelDescriber(made).describe(ERRORS[:1]), {"errors": DESCRIBED["errors"][:1]}, ()),
    "grouper": (
        lambda made: ModelDescriber(made).describe(ERRORS),
        {"groups": [{"name": "vague", "description": "It is vague.", "members": [1, 2]}]},
        (DESCRIBED,),
    ),
    "proposer": (
        lambda made: ModelProposer(made).propose(proposal_brief()),
        change(action="add_evidence", field_name="docs", field_path="meta.metadata.context", label=None, text=None),
        (),
    ),
    "proposer of a criterion": (lambda made: ModelProposer(made).propose(proposal_brief()), change(), ()),
    "checker": (
        lambda made: ModelChecker(made).contradicts("bad", "It is fine.", labels=("bad", "good"), call=0),
        {"reason": "It praises.", "argues_for_another_label": True},
        (),
    ),
}


def strings(value: Any, schema: Mapping[str, Any], at: Path_ = ()) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    """Where the answer has free text, with its part of the schema."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(inner, schema["properties"][key], (*at, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from strings(inner, schema["items"], (*at, n))
    elif isinstance(value, str) and "enum" not in schema:
        yield at, schema


def put(answer: dict[str, Any], at: Path_, value: Any) -> dict[str, Any]:
    made: Any = copy.deepcopy(answer)
    node = made
    for step in at[:-1]:
        node = node[step]
    node[at[-1]] = value
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ROLES)
def test_every_text_is_bounded_in_the_schema_exactly_as_in_the_parser(tmp_path: Path, name: str) -> None:
    ask, answer, before = ROLES[name]

    def asked(folder: str, given: Any) -> Mapping[str, Any]:
        (tmp_path / folder).mkdir()
        made, client = desk(tmp_path / folder, *before, given, given)
        try:
            ask(made)
        finally:
            schema = client.asked[-1].schema
        return schema

    schema = asked("plain", answer)
    jsonschema.validate(answer, schema)
    places = list(strings(answer, schema))
    assert places
    for n, (at, part) in enumerate(places):
        most = part["maxLength"]
        # a closing answer is a number, however it is written
        start, more = ("3.", "0") if (name, at) == ("drafter of a number", ("otherwise",)) else ("", "x")
        full, over = (put(answer, at, start.ljust(size, more)) for size in (most, most + 1))
        jsonschema.validate(full, schema)
        asked(f"full{n}", full)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(over, schema)
        with pytest.raises(NoAdvice, match=f"more than {most} characters"):
            asked(f"over{n}", over)


@pytest.mark.parametrize(
    ("name", "key", "most"), [("drafter", "criteria", MOST_CRITERIA), ("grouper", "groups", MOST_BUCKETS)]
)
def test_lists_end(tmp_path: Path, name: str, key: str, most: int) -> None:
    ask, answer, before = ROLES[name]
    made, client = desk(tmp_path, *before, answer)
    ask(made)
    assert client.asked[-1].schema["properties"][key]["maxItems"] == most


@pytest.mark.parametrize("dialect", ["openai-responses", "openai-chat", "azure-chat", "anthropic-messages"])
def test_a_provider_that_takes_no_bounds_is_not_sent_any(tmp_path: Path, dialect: str) -> None:
    for n, (ask, answer, before) in enumerate(ROLES.values()):
        (tmp_path / str(n)).mkdir()
        made, client = desk(tmp_path / str(n), *before, answer)
        ask(made)
        for request in client.asked:
            sent = str(fit_schema(request.schema, QUIRKS[dialect])[0])
            assert not any(word in sent for word in ("maxLength", "minLength", "maxItems"))
