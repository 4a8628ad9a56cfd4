"""A well-behaved client that measures its latency while others attack.

Run as `python -m tierlog.bench.harness.loads.hostile.bystander --bootstrap … --seconds … --patience
…`. It sends Metadata requests repeatedly, and reports the latency of each. A request that has no
response when the time and the patience are over counts with the time that it waited. Prints one
JSON object.
"""

import argparse
import json
import sys
import time
from array import array
from collections.abc import Sequence

from .....clients.protocol.messages.metadata import MetadataRequest
from ...requests.wire import Prepared, Wire, WireError, prepare
from ..client_process import leave_latencies

_PAUSE_S = 0.01
_METADATA_VERSION = 12


def watch(bootstrap: str, seconds: float, patience_s: float) -> tuple["array[float]", int]:
    """(at_s, ms) of each request, and the number without a response."""
    question: Prepared = prepare(MetadataRequest(topics=[]), _METADATA_VERSION)
    pairs = array("d")
    unanswered = 0
    began = time.perf_counter()
    wire: Wire | None = None
    while (at := time.perf_counter() - began) < seconds:
        left = max(seconds - at, 0.0) + patience_s
        try:
            wire = wire or Wire(bootstrap, left)
            wire.socket.settimeout(left)
            wire.answer_ms(question)
        except WireError:
            # Connecting counts too: a client that cannot connect also waits.
            unanswered += 1
            if wire is not None:
                wire.close()
            wire = None
        pairs.extend((at, (time.perf_counter() - began - at) * 1000))
        time.sleep(_PAUSE_S)
    return pairs, unanswered


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("bystander")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--patience", type=float, required=True)
    stated = parser.parse_args(arguments)
    pairs, unanswered = watch(stated.bootstrap, stated.seconds, stated.patience)
    leave_latencies(pairs)
    print(json.dumps({"asked": len(pairs) // 2, "unanswered": unanswered}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
