"""A stream whose options are wrong: whatever Spark asks of it first is answered by the error."""

from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...reading.scan_options import ScanError
from .scan_partition import one_line
from .stream_offset import OffsetJson


class RefusedStream(DataSourceStreamReader):
    """A stream reader that raises a ScanError of this message when Spark asks for offsets."""

    def __init__(self, message: str) -> None:
        self._message = message

    def initialOffset(self) -> NoReturn:
        self._refuse()

    def latestOffset(self) -> NoReturn:
        self._refuse()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> NoReturn:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        with one_line():
            raise ScanError(self._message)
