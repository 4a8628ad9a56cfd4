"""How large the stories of clusters are: small as they are run by default, and as large as wanted.

TIERLOG_SPARK_RECORDS=8000000 TIERLOG_SPARK_VALUE_BYTES=30 TIERLOG_SPARK_KILLS=2 pytest -m long …
"""

import os

RECORDS = int(os.environ.get("TIERLOG_SPARK_RECORDS", "16000"))
"""Records of a topic, of which a quarter is aborted."""
VALUE_BYTES = int(os.environ.get("TIERLOG_SPARK_VALUE_BYTES", "1200"))
"""A value of partition 0 is shorter than this, one of the others shorter than three times this."""
KILLS = int(os.environ.get("TIERLOG_SPARK_KILLS", "1"))
"""How often each kind of process is killed."""
SEED = int(os.environ.get("TIERLOG_SPARK_SEED", "1"))
TIMEOUT_S = 600 + 300 * KILLS + RECORDS // 500
"""Of a story."""
EXTENT = RECORDS * 1.02
"""About how many offsets a topic has: its records, and the markers of transactions."""
