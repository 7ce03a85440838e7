"""The label checker: does a reviewer's reasoning argue for another label than the one given (LO-5)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitter.advisors.desk import Desk, Unfit, cut, exactly, obj, prompt_text, sentence, words

MOST_REASON = 1000  # characters

_TASK = prompt_text("checker")


@dataclass(frozen=True)
class ModelChecker:
    """A LabelChecker on a desk."""

    desk: Desk

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it."""
        return self.desk.identity

    def contradicts(self, label: str, reason: str, *, labels: Sequence[str], call: int) -> bool:
        """One of three calls.

        Raises:
            NoAdvice: no usable answer.
        """

        def read(value: Mapping[str, Any]) -> bool:
            exactly(value, ("reason", "argues_for_another_label"))
            sentence(value["reason"], "reason", MOST_REASON)
            if not isinstance(value["argues_for_another_label"], bool):
                raise Unfit("argues_for_another_label is not true or false")
            return value["argues_for_another_label"]

        return self.desk.ask(
            role="describer",
            phase="check_labels",
            task=_TASK.format(label=f"`{label}`", labels=", ".join(f"`{name}`" for name in labels) or "numbers"),
            parts=[("reasoning", cut(reason))],
            schema=obj({"reason": words(MOST_REASON), "argues_for_another_label": {"type": "boolean"}}),
            read=read,
            call=call,
        )
