"""Keys come in here, and no key goes out: resolution and redaction (SC-3).

A key is read from an environment variable or printed by a command the user named; it is never an option's value. Every
text that leaves a client (details, errors, raw bodies, model names, replies) passes the :class:`Redactor`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from fitter.errors import SettingsError
from fitter.textsafe import one_line

MASK = "[secret]"
_SHORTEST = 6  # a shorter value is no secret, and masking it would eat ordinary text
_FRAGMENT = 8
_COMMAND_SECONDS = 30.0

# Shapes of well-known keys, also when a provider has masked their middle ("sk-ab***yz").
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key)-[A-Za-z0-9_\-*.…]{6,}"
    r"|\bAKIA[0-9A-Z]{12,}"
    r"|\bAIza[0-9A-Za-z_\-]{20,}"
    r"|\bya29\.[0-9A-Za-z_\-.]+"
    r"|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-.]+"
    r"|(?i:\bbearer\s+)[A-Za-z0-9_\-.=/+]{6,}"
)
# What a provider's own mask leaves of a key once its beginning is gone.
_HALF_MASKED = re.compile(r"\[secret\][*.…]+[A-Za-z0-9_\-]{0,12}")
_HEADER_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")


class Redactor:
    """Removes secrets from text. It holds them, so it has no useful repr and is never recorded."""

    __slots__ = ("_ends", "_secrets")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        held = {s for s in secrets if len(s) >= _SHORTEST}
        held |= {quote(s, safe="") for s in held}
        self._secrets = tuple(sorted(held, key=len, reverse=True))
        # Providers quote the ends of a key in their errors.
        self._ends = tuple(s for s in self._secrets if len(s) >= 2 * _FRAGMENT)

    def __repr__(self) -> str:
        return "Redactor(...)"

    def exact(self, text: str) -> str:
        """Masks the known secrets, nothing else: safe on text that is content."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def known(self, text: str) -> str:
        """Masks the known secrets, and their beginnings and ends from eight characters on."""
        text = self.exact(text)
        for secret in self._ends:
            head, tail = secret[:_FRAGMENT], secret[-_FRAGMENT:]
            at = -1
            while (at := text.find(head, at + 1)) >= 0:
                end = at + _FRAGMENT
                while end < len(text) and end - at < len(secret) and text[end] == secret[end - at]:
                    end += 1
                text = text[:at] + MASK + text[end:]
            at = -1
            while (at := text.find(tail, at + 1)) >= 0:
                end, start = at + _FRAGMENT, at
                while start > 0 and end - start < len(secret) and text[start - 1] == secret[start - 1 - end]:
                    start -= 1
                text = text[:start] + MASK + text[end:]
                at = start
        return text

    def raw(self, body: bytes) -> bytes:
        """The same for bytes."""
        return self.known(body.decode("latin-1")).encode("latin-1") if self._secrets else body

    def detail(self, text: str, limit: int = 300) -> str:
        """A provider's words for people: all of these and anything shaped like a key masked, one line."""
        text = _SHAPES.sub(MASK, self.exact(text[: limit * 20]))
        return one_line(_HALF_MASKED.sub(MASK, self.known(text)), limit)

    def words(self, text: str) -> str:
        """:meth:`detail` of any text whatever, and never nothing."""
        return self.detail(clean(text)) or "(no message)"


def clean(text: str) -> str:
    """Lone surrogates replaced: they cannot be stored or sent on as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def read_key(*, key_env: str | None, key_command: str | None, env: Mapping[str, str]) -> str | None:
    """The key from the command (first) or the environment variable; None when neither is named or set.

    Raises:
        SettingsError: the command fails, prints nothing, or prints more than one line. Its output is never quoted.
    """
    if key_command:
        return _from_command(key_command)
    if key_env:
        value = env.get(key_env, "").strip()
        if any(ch in value for ch in "\r\n\x00"):
            raise SettingsError(f"the value of {key_env} is not a key: it holds a line break or a NUL")
        return value or None
    return None


def _from_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise SettingsError(f"key_command cannot be read: {fault}") from None
    if not words:
        raise SettingsError("key_command is empty")
    try:
        done = subprocess.run(words, capture_output=True, timeout=_COMMAND_SECONDS, check=False, text=True)
    except FileNotFoundError:
        raise SettingsError(f"key_command: there is no program {words[0]!r}") from None
    except subprocess.TimeoutExpired:
        raise SettingsError(f"key_command did not end within {_COMMAND_SECONDS:.0f} s") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"key_command cannot be run: {type(fault).__name__}") from None
    if done.returncode != 0:
        raise SettingsError(f"key_command ended with status {done.returncode}", hint="run it by hand to see why")
    key = done.stdout.strip()
    if not key or "\n" in key or "\r" in key:
        raise SettingsError("key_command must print one line, the key")
    return key


def read_headers(headers: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Resolves extra headers; a value is ``env:NAME``, never a literal.

    Raises:
        SettingsError: a literal value, a bad header name, or a variable that is not set. Values are never quoted.
    """
    out: dict[str, str] = {}
    for name, source in headers.items():
        if not _HEADER_NAME.match(name):
            raise SettingsError(f"{one_line(name, 60)!r} is not a header name")
        if not source.startswith("env:") or not source[4:]:
            raise SettingsError(
                f"the header {name} must name an environment variable",
                hint=f'write {name} = "env:MY_VARIABLE"; a literal value would end up in files',
            )
        value = env.get(source[4:])
        if not value:
            raise SettingsError(f"the header {name} needs the environment variable {source[4:]}, which is not set")
        if any(ch in value for ch in "\r\n\x00"):
            raise SettingsError(f"the value of {source[4:]} holds a line break: it cannot be a header")
        out[name] = value
    return out
