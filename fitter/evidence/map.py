"""The evidence map: where in a trace the signal lives, as reviewed data (one JSON file a criterion)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fitter.jsonio import digest
from fitter.records import Scope

_NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")


class EvidenceField(BaseModel):
    """One piece of evidence.

    Attributes:
        name: heading under which the judge sees it (lower case, digits, underscore).
        path: selector in the target's template grammar, without braces, e.g. ``meta.input.value``.
        required: a row where it is missing cannot be judged (``unrenderable``).
        why: one sentence for the reviewer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: str = Field(min_length=1, max_length=500)
    required: bool = False
    why: str = ""

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError("a field name is lower-case letters, digits and underscores")
        return value

    @field_validator("path")
    @classmethod
    def _path(cls, value: str) -> str:
        if any(mark in value for mark in ("{", "}", "\n", "\r", "\x00")):
            raise ValueError("a selector holds no braces and no line breaks")
        return value.strip()


class EvidenceMap(BaseModel):
    """Fields in the order in which the judge sees them, at one scope."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    scope: Scope
    fields: tuple[EvidenceField, ...]
    reviewed: bool = False
    origin: str = ""

    @model_validator(mode="before")
    @classmethod
    def _tuple(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("fields"), list):
            return {**value, "fields": tuple(value["fields"])}
        return value

    @model_validator(mode="after")
    def _check(self) -> EvidenceMap:
        names = [f.name for f in self.fields]
        if not names:
            raise ValueError("an evidence map has at least one field")
        if len(set(names)) != len(names):
            raise ValueError("field names are unique")
        return self

    @property
    def hash(self) -> str:
        """Hash of what shapes the judge's input: scope, names and paths in order, required flags."""
        return digest([self.scope, [[f.name, f.path, f.required] for f in self.fields]])
