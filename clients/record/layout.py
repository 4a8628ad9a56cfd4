"""The positions of the fields of record batches and index entries in Kafka's formats.

A batch (magic 2, `DefaultRecordBatch` in Kafka) begins with this header, big-endian:

    0 base offset   8 batch length   12 leader epoch   16 magic   17 CRC-32C   21 attributes
    23 last offset delta   27 base timestamp   35 max timestamp   43 producer id
    51 producer epoch   53 base sequence   57 record count   61 records

The CRC covers everything from the attributes on. Code that reads a few fields of very many batches
unpacks only those fields: each such selection has a `Struct` named after its fields.
"""

from struct import Struct

LENGTH_POSITION = 8
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35

LOG_OVERHEAD = 12
"""The size of the base offset and batch length, which `batch_length` does not include."""

BATCH_OVERHEAD = 61
"""The size of the whole header; no batch is smaller."""

HEADER = Struct(">qiibIhiqqqhii")
assert HEADER.size == BATCH_OVERHEAD

OFFSET_AND_LENGTH = Struct(">qi")
OFFSET_LENGTH_AND_LEADER_EPOCH = Struct(">qii")
OFFSET_LENGTH_AND_DELTA = Struct(">qi11xi")
"""Base offset, batch length and last offset delta: what a walk over batches needs."""
OFFSET_LENGTH_MAGIC_AND_DELTA = Struct(">qi4xb6xi")
"""The same fields and the magic number, which distinguishes a batch from other bytes."""
OFFSET_LENGTH_EPOCH_AND_DELTA = Struct(">qii7xi")
OFFSET_LENGTH_MAGIC_CRC_AND_DELTA = Struct(">qi4xBI2xi")
OFFSET_LENGTH_DELTA_AND_MAX_TIMESTAMP = Struct(">qi11xi8xq")
OFFSET_LENGTH_MAGIC_DELTA_AND_MAX_TIMESTAMP = Struct(">qi4xB6xi8xq")
ATTRIBUTES_AND_COUNT = Struct(">21xh34xi")
LENGTH_MAGIC_ATTRIBUTES_AND_COUNT = Struct(">8xi4xb4xh34xi")
LENGTH_LEADER_EPOCH_AND_MAGIC = Struct(">iib")
"""Unpacked from `LENGTH_POSITION` on."""

OFFSET_INDEX_ENTRY = Struct(">ii")
"""Relative offset and position in the segment (`OffsetIndex`)."""
TIME_INDEX_ENTRY = Struct(">qi")
"""Timestamp and relative offset (`TimeIndex`)."""
TRANSACTION_INDEX_ENTRY = Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset (`TransactionIndex`)."""
