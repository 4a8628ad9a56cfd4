"""Opens the ports at which a broker serves metrics and status, before anything else starts.

A port that is in use stops the start, as that of a listener does. The dev broker, which serves the
status page unasked, takes a free port instead and says so in one line.
"""

import errno
import logging

from ...clients.errors import ErrorCode, KafkaError
from ..config.config import BrokerConfig
from ..config.remedies import metrics_message, status_message
from ..network.http_endpoint import HttpEndpoint, Site
from ..network.transport import Network
from .status_site import StatusSite

_log = logging.getLogger(__name__)


class StatusEndpoints:
    """The endpoints of one broker."""

    def __init__(self, config: BrokerConfig, network: Network, site: StatusSite) -> None:
        self._config = config
        self._network = network
        self._site = site
        self._open: list[HttpEndpoint] = []

    async def serve_metrics(self) -> int:
        """Serve metrics and health at `tierlog.metrics.port`; -1 if it is not set.

        Raises KafkaError(INVALID_CONFIG) if the port cannot be bound.
        """
        host, port = self._address("metrics")
        if port < 0:
            return -1
        try:
            port = await self._open_at(host, port, self._site.answer_health)
        except OSError as error:
            message = metrics_message(f"{host}:{port}", error)
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from error
        _log.info("Metrics are at http://%s:%d/metrics", host, port)
        return port

    async def serve_status(self) -> str:
        """Serve everything at `tierlog.status.port`; returns the URL, "" if it is not set.

        Raises KafkaError(INVALID_CONFIG) if the port cannot be bound.
        """
        host, port = self._address("status")
        if port < 0:
            return ""
        try:
            port = await self._open_or_move(host, port)
        except OSError as error:
            message = status_message(f"{host}:{port}", error)
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from error
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def _open_or_move(self, host: str, port: int) -> int:
        try:
            return await self._open_at(host, port, self._site.answer)
        except OSError as error:
            if not self._config.may_move_status or error.errno != errno.EADDRINUSE:
                raise
        free = await self._open_at(host, 0, self._site.answer)
        _log.warning("Port %d is in use: the status page is at http://%s:%d", port, host, free)
        return free

    def _address(self, what: str) -> tuple[str, int]:
        values = self._config.values
        return values.text(f"tierlog.{what}.host"), values.integer(f"tierlog.{what}.port")

    async def _open_at(self, host: str, port: int, site: Site) -> int:
        """Serve at an address; returns the port. Raises OSError."""
        listeners, values = self._config.listeners, self._config.values
        names = [each.host for each in (*listeners.bound, *listeners.advertised)]
        names += [values.text("tierlog.metrics.host"), values.text("tierlog.status.host")]
        endpoint = HttpEndpoint(self._network, site, [name for name in names if name])
        bound = await endpoint.start(host, port)
        self._open.append(endpoint)
        return bound

    def stop(self) -> None:
        """Close every port. Idempotent."""
        while self._open:
            self._open.pop().stop()
