"""Avoids two costs of PySpark's worker around each task.

A worker runs many tasks. Before each task PySpark invalidates Python's import caches, and so
`zipimport` rereads the archives on the path. Among them are Spark's own, with a jar of thousands of
classes, which do not change while Spark runs. After each task PySpark collects garbage, for which
Python visits all objects of all modules. Together these cost about 0.15 s of CPU a task, the time
to decode half a million records.
"""

import gc
import os
import sys
from functools import cache
from zipimport import zipimporter


@cache
def spare_modules() -> None:
    """Exclude all existing objects from garbage collection, once per worker.

    Nearly all of them belong to modules, which live until the worker ends.
    """
    gc.collect()
    gc.freeze()


def forget_spark_archives() -> None:
    """Keep Python from rereading Spark's own archives before the next task.

    Python invalidates only the importers in `sys.path_importer_cache`, from which this removes
    Spark's. If one is needed again, Python creates it from the contents that `zipimport` still
    caches. Users' own archives are reread as usual.
    """
    # Spark too uses SPARK_HOME, to put its archives on the path.
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    within = os.path.join(home, "")
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and importer.archive.startswith(within):
            del sys.path_importer_cache[path]
