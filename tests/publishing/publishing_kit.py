"""What the publishing tests share: a spec, and a platform that fails in chosen ways."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitter.errors import PublishError
from fitter.labels import LabelSchema
from fitter.publishing.publisher import EvaluatorSpec
from fitter.records import VerdictContract

CONTRACT = VerdictContract(
    label_field="label",
    reasoning_field="reasoning",
    confidence_field="confidence",
    schema={
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "label": {"enum": ["bad", "good"]}},
        "required": ["reasoning", "label"],
        "additionalProperties": False,
    },
    label=LabelSchema(id="q", name="quality", kind="categorical", classes=("bad", "good")),
)


def make_spec(**changes: Any) -> EvaluatorSpec:
    values: dict[str, Any] = {
        "name": "reply_quality",
        "app": "support",
        "scope": "span",
        "system": 'Grade the reply.\n\nOtherwise answer "bad".',
        "user_template": "<<<n\n{{span_output}}\nn>>>",
        "contract": CONTRACT,
        "judge": "lexicon",
        "pass_labels": ("good",),
        "metadata": {"run": "run-1", "prompt_hash": "ab"},
    }
    return EvaluatorSpec(**{**values, **changes})


@dataclass
class FakePlatform:
    """A nested document like a real platform's, and one fault at a time.

    Attributes:
        on_put: what is stored instead of what was sent; returns None to store nothing.
        put_raises: raised by put, after storing when ``stores_first``.
        listed_after: the listing shows it from this look on (0: at once); None: never.
        read_after: get shows it from this read after a put on.
        sends_back: config() sends the platform's own fields back to it, as some platforms allow.
    """

    on_put: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda config: config
    put_raises: Exception | None = None
    stores_first: bool = False
    listed_after: int | None = 0
    read_after: int = 0
    sends_back: bool = False
    listing_change: Mapping[str, Any] = field(default_factory=dict)
    store: dict[str, dict[str, Any]] = field(default_factory=dict)
    puts: list[dict[str, Any]] = field(default_factory=list)
    looks: int = 0
    reads: int = 0

    name = "fake"
    rehearsal = False
    page = "https://platform.invalid/evaluations"

    def check(self, name: str, app: str, judge: str) -> None:
        """Nothing to refuse: the faults under test come later."""

    def config(self, spec: EvaluatorSpec, existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
        kept = dict(existing or {})
        if not self.sends_back:
            kept.pop("updated_at", None)
        target = {**kept.get("target", {}), "application_name": spec.app, "enabled": False, "eval_scope": spec.scope}
        prompt = [{"role": "system", "content": spec.system}, {"role": "user", "content": spec.user_template}]
        return {**kept, "eval_name": spec.name, "target": target, "prompt_template": prompt}

    def get(self, name: str) -> Mapping[str, Any] | None:
        self.reads += 1
        if self.puts and self.reads <= self.read_after:
            return None
        return copy.deepcopy(self.store.get(name))

    def put(self, name: str, config: Mapping[str, Any]) -> None:
        self.puts.append(copy.deepcopy(dict(config)))
        self.reads = 0
        if self.put_raises is not None and not self.stores_first:
            raise self.put_raises
        stored = self.on_put(copy.deepcopy(dict(config)))
        if stored is not None:
            self.store[name] = {**stored, "updated_at": len(self.puts)}
        if self.put_raises is not None:
            raise self.put_raises

    def listing(self, app: str) -> Sequence[Mapping[str, Any]]:
        self.looks += 1
        if self.listed_after is None or self.looks <= self.listed_after:
            return [{"name": "another", "enabled": True}]
        found = [d for d in self.store.values() if d["target"]["application_name"] == app]
        return [{"name": d["eval_name"], "enabled": False, **self.listing_change} for d in found]

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value for key, value in config.items() if key != "updated_at"}


REFUSED = PublishError("the platform refused the write: 403 no permission")
