"""A process that has imported everything a fit needs, and runs one command line in a fork for each line it is sent.

Each fork is a process of its own, with its own exit code, environment, limits and signals, without paying for the
imports again. Speaks JSON lines: {"argv", "cwd", "env", "out", "err", "fsize", "nobody"} → {"code"}.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import sys
import traceback
from typing import Any

import langgraph.checkpoint.sqlite
import langsmith
import scipy.stats

import fitter
from fitter import fitting
from fitter.cli import main
from fitter.loop import graph
from fitter.loop.steps import finish, iterate, prepare

b"x".decode("utf-8-sig")  # loads the codec: a process without rights may not read its file
for _module in pkgutil.walk_packages(fitter.__path__, "fitter."):
    importlib.import_module(_module.name)

LOADED = (langgraph.checkpoint.sqlite, langsmith, scipy.stats, fitting, graph, finish, iterate, prepare)


def child(order: dict[str, Any]) -> None:
    """Becomes the command; never returns."""
    code = 99
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        err = os.open(order["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for fd, stream in ((null, 0), (out, 1), (err, 2)):
            os.dup2(fd, stream)
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        if order["nobody"] and os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        if order["fsize"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["fsize"], order["fsize"]))
        main.main(order["argv"])
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 97  # a traceback: no command may end like this
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def serve() -> None:
    """Reads orders until the pipe is closed."""
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            child(json.loads(line))
        _, status = os.waitpid(pid, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        sys.stdout.write(json.dumps({"code": code}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
