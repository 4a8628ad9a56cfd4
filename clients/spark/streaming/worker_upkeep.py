"""What PySpark's worker does anew around each task, kept from costing as much as the task.

A worker lives for many tasks. Before each PySpark has Python look for modules anew, for which
`zipimport` reads through the archives on its path: Spark puts its own on it, a jar of thousands of
classes among them, and they do not change while it runs. After each PySpark collects garbage, for
which Python looks at all objects of all modules. Both together take a worker about 0.15 s of CPU,
in which it decodes half a million records.
"""

import gc
import os
import sys
from functools import cache
from zipimport import zipimporter


@cache
def spare_modules() -> None:
    """Keep the objects that there are, once in the life of a worker, out of garbage collection.

    All but a few of them are what its modules hold, which is there until its end.
    """
    gc.collect()
    gc.freeze()


def forget_spark_archives() -> None:
    """Let none of Spark's own archives be read through before the next task.

    Python still knows what they hold, and makes a new importer of that when it needs one. What
    users bring in archives of their own is looked through as ever.
    """
    # Spark has put them on the path by the same variable.
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    within = os.path.join(home, "")
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and importer.archive.startswith(within):
            del sys.path_importer_cache[path]
