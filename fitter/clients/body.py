"""Reading a response body with bounds: no 50 MB reply and no gzip bomb reaches memory whole."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_BODY = 4 * 1024 * 1024
RAW_CAP = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One HTTP answer, read to its end or to the bound.

    Attributes:
        status: HTTP status.
        headers: names in lower case.
        body: decoded bytes, at most MAX_BODY.
        problem: why the body is not whole: ``larger than 4 MiB``, ``broken gzip``, ``content encoding br``.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None


class _Decoder:
    """Identity, gzip or deflate, never producing more than the bound."""

    def __init__(self, encoding: str) -> None:
        self._zlib: Any = None
        if encoding in ("gzip", "x-gzip"):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif encoding == "deflate":
            self._zlib = zlib.decompressobj()

    def feed(self, chunk: bytes, room: int) -> tuple[bytes, bool]:
        """Decoded bytes (at most ``room + 1``), and whether the stream is over."""
        if self._zlib is None:
            return chunk[: room + 1], False
        out: bytes = self._zlib.decompress(chunk, room + 1)
        return out, bool(self._zlib.eof)

    @property
    def finished(self) -> bool:
        return self._zlib is None or bool(self._zlib.eof)


async def read_bounded(
    status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes], *, limit: int = MAX_BODY
) -> Exchange:
    """Reads at most ``limit`` decoded bytes, then stops listening.

    Args:
        status: HTTP status.
        headers: response headers, any case.
        chunks: raw (still encoded) bytes.
        limit: most decoded bytes kept.

    Raises:
        Exception: whatever the network layer raises while reading.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    encoding = lower.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        return Exchange(status=status, headers=lower, body=b"", problem=f"content encoding {encoding[:20]}")
    decoder = _Decoder(encoding)
    kept = bytearray()
    problem: str | None = None
    async with contextlib.aclosing(chunks) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            try:
                out, over = decoder.feed(chunk, limit - len(kept))
            except zlib.error:
                problem = f"broken {encoding}"
                break
            kept += out
            if len(kept) > limit:
                problem = f"larger than {limit // (1024 * 1024)} MiB"
                del kept[limit:]
                break
            if over:
                break
    if problem is None and not decoder.finished:
        problem = f"truncated {encoding}"
    return Exchange(status=status, headers=lower, body=bytes(kept), problem=problem)
