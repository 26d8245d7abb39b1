"""The process that holds a local model: ``python -m harnessctl.models.local_server``.

Reads one line of JSON (:class:`Order`) from standard input, loads the weights, serves an OpenAI-style
endpoint on a port of 127.0.0.1 and writes one line of JSON to standard output: ``{"address": …}`` or
``{"error": …}``. It ends when standard input closes or its parent is gone. The key travels on standard
input, where no list of processes shows it. All that the library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import asdict, dataclass
from typing import Any

#: Seconds between looks at the parent; closing its pipe is noticed at once.
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to serve.

    :ivar window: tokens of context.
    :ivar max_output: tokens after which a reply is ended, so that a model that repeats itself stops.
    """

    weights: str
    name: str
    key: str
    window: int
    max_output: int
    threads: int

    def to_line(self) -> bytes:
        """The order as it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"


def main() -> int:
    """Serve until nobody is there to be served."""
    parent = os.getppid()
    order = Order(**json.loads(sys.stdin.buffer.readline()))
    report = os.dup(1)
    os.dup2(2, 1)
    try:
        server = serve(order)
        answer = {"address": server.listening_address}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    os.write(report, json.dumps(answer).encode() + b"\n")
    os.close(report)
    if "address" in answer:
        wait_for_the_end(parent)
    sys.stdout.flush()
    # Not a normal exit: the library's threads may be in the middle of a reply nobody waits for.
    os._exit(0 if "address" in answer else 1)


def serve(order: Order) -> Any:
    """A running server: greedy, so that the same conversation gives the same reply."""
    import xllamacpp  # the wheel is part of an extra, and this process exists to load it

    params = xllamacpp.CommonParams()
    params.model.path = order.weights
    params.model_alias = {order.name}
    params.n_ctx = order.window
    params.n_predict = order.max_output
    params.n_parallel = 1
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.threads
    params.sampling.temp = 0.0
    params.sampling.seed = 0
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order.key]
    params.ui = False
    params.offline = True
    params.endpoint_slots = False
    return xllamacpp.Server(params)


def wait_for_the_end(parent: int) -> None:
    """Return when standard input is closed or the parent has changed."""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if readable and not os.read(0, 4096):
            return


if __name__ == "__main__":
    main()
