"""The addresses that a broker serves over HTTP: metrics, health, and the status page with its API.

    /metrics  /healthz  /ready          wherever HTTP is served
    /  and the page's files  /api/v1/   at tierlog.status.port
    /tables                             there too, for browsers without JavaScript

`/healthz` answers 200 while the event loop runs. `/ready` answers 200 when clients are served and
the controllers answer this broker; otherwise 503 and why not. A broker that is cut off from the
controllers still serves the partitions it leads. Trouble of the tier is a second line of `/ready`:
the broker serves all local data meanwhile. These two are answered at once; all that takes longer is
collected (`collector.py`).
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ..metrics.metrics import Metrics
from ..metrics.prometheus import CONTENT_TYPE, exposition_steps
from ..network.http_endpoint import Answer
from ..network.http_message import Request, Response, plain

if TYPE_CHECKING:
    from ...tiering.remote_log_manager import RemoteLogManager
    from .collector import Collector
    from .page_files import PageFiles
    from .sources import StatusSources
    from .status_api import StatusApi

_API = "/api/v1/"
_TABLES = "/tables"


class StatusSite:
    """Answers requests; what serves the API is loaded when it is first asked for."""

    def __init__(
        self,
        metrics: Metrics,
        obstacle: Callable[[], str],
        tier: "Callable[[], RemoteLogManager | None]",
    ) -> None:
        """`obstacle` returns why the broker is not ready, or ""; `tier` its tier, if it has one."""
        self._metrics = metrics
        self._obstacle = obstacle
        self._tier = tier
        self.sources: StatusSources | None = None
        """What the API is collected from; None while the broker starts."""
        self._collector: Collector | None = None
        self._api: StatusApi | None = None
        self._files: PageFiles | None = None

    def serve(self, sources: "StatusSources") -> None:
        """Answer requests for the API from now on; until then they get 503."""
        self.sources = sources

    async def stop(self) -> None:
        """Stop collecting. Idempotent."""
        self.sources = self._api = None
        if self._collector is not None:
            await self._collector.stop()

    def answer_health(self, request: Request) -> Answer:
        """Metrics and health alone, for `tierlog.metrics.port`."""
        match request.path:
            case "/metrics":
                return self._collecting().answer(("metrics",), self.metrics_steps, 0)
            case "/healthz":
                return plain(200, "ok")
            case "/ready":
                return self._ready()
            case "/":
                return plain(200, "Metrics are at /metrics.")
            case _:
                return plain(404, "Metrics are at /metrics.")

    def answer(self, request: Request) -> Answer:
        """Everything, for `tierlog.status.port`."""
        if request.path in ("/metrics", "/healthz", "/ready"):
            return self.answer_health(request)
        if request.path.startswith(_API):
            return self._answer_api(request)
        if request.path == _TABLES or request.path.startswith(f"{_TABLES}/"):
            return self._answer_tables(request)
        if self._files is None:
            from .page_files import PageFiles

            self._files = PageFiles()
        return self._files.answer(request.path)

    def _answer_api(self, request: Request) -> Answer:
        from .status_api import problem

        api = self._running_api()
        return problem(503, self._reason()) if api is None else api.answer(request)

    def _answer_tables(self, request: Request) -> Answer:
        api = self._running_api()
        return plain(503, self._reason()) if api is None else api.answer_tables(request)

    def _running_api(self) -> "StatusApi | None":
        """What answers for the broker; None while there is nothing to collect from."""
        if self._api is None and self.sources is not None:
            from .status_api import StatusApi

            self._api = StatusApi(self.sources, self._collecting())
        return self._api

    def _reason(self) -> str:
        return self._obstacle() or "This process is not a broker."

    def _collecting(self) -> "Collector":
        if self._collector is None:
            from .collector import Collector

            self._collector = Collector()
        return self._collector

    def metrics_steps(self) -> Generator[None, None, Response]:
        """Make the answer with all metrics, in steps."""
        samples = yield from self._metrics.sample_steps()
        body = yield from exposition_steps(samples)
        return Response(200, body, CONTENT_TYPE)

    def _ready(self) -> Response:
        reason = self._obstacle()
        if reason:
            return plain(503, reason)
        tier = self._tier()
        trouble = "" if tier is None else tier.tier_trouble
        return plain(200, f"ready\n{trouble}" if trouble else "ready")
