"""The files of a table, through the Hadoop file systems that Spark itself writes with.

The one place that reaches into Spark's JVM, whose objects have no types in Python. A path may be
anything that Spark can write: `/data/lake`, `hdfs://...`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredFile(NamedTuple):
    """A file below a folder: its path from there, with slashes, and its size."""

    path: str
    nbytes: int


class HadoopFiles:
    """Files below one folder; every path is relative to it."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        # py4j makes its attributes up as they are asked for.
        context = cast("Any", spark.sparkContext)
        self._gateway = context._gateway
        self._java = context._jvm
        configuration = context._jsc.hadoopConfiguration()
        path = self._java.org.apache.hadoop.fs.Path(folder)
        self._files = path.getFileSystem(configuration)
        self._folder = self._files.makeQualified(path)
        self._context = self._java.org.apache.hadoop.fs.FileContext.getFileContext(
            self._folder.toUri(), configuration
        )

    def _path(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        return self._java.org.apache.hadoop.fs.Path(self._folder, path) if path else self._folder

    def url(self, path: str) -> str:
        """Under which name Spark reads and writes it."""
        return str(self._path(path).toString())

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """What lies in a folder, sorted; nothing if there is no such folder."""
        if not self.exists(path):
            return []
        return sorted(
            str(each.getPath().getName()) for each in self._files.listStatus(self._path(path))
        )

    def below(self, path: str) -> list[StoredFile]:
        """All files below a folder at any depth, without those that Spark leaves beside its own."""
        files: list[StoredFile] = []
        if not self.exists(path):
            return files
        start = len(self.url("")) + 1
        listing = self._files.listFiles(self._path(path), True)
        while listing.hasNext():
            each = listing.next()
            relative = str(each.getPath().toString())[start:]
            below = relative[len(path) :].lstrip("/")
            if not any(part.startswith(("_", ".")) for part in below.split("/")):
                files.append(StoredFile(relative, int(each.getLen())))
        return sorted(files)

    def read(self, path: str) -> str:
        stream = self._files.open(self._path(path))
        try:
            text = self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def create(self, path: str, text: str) -> None:
        """Write a new file, durably as far as the file system can; its folders come with it."""
        stream = self._files.create(self._path(path), False)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()

    def make_folder(self, path: str) -> None:
        self._files.mkdirs(self._path(path))

    def rename(self, old: str, new: str) -> bool:
        """Rename where nothing has that name yet; False where something has."""
        rename = self._java.org.apache.hadoop.fs.Options.Rename
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.NONE
        try:
            self._context.rename(self._path(old), self._path(new), how)
        except Py4JJavaError as error:
            return self._refused(error)
        return True

    @staticmethod
    def _refused(error: Py4JJavaError) -> bool:
        """False if something has that name already. Raises the error if that is not what it is."""
        if "FileAlreadyExists" not in str(cast("Any", error).java_exception):
            raise error
        return False

    def publish(self, old: str, new: str) -> bool:
        """Rename a file where nothing has that name yet, and if two do so at once, for one only.

        Hadoop's rename of local files looks first and renames then. A link fails if there is one.
        """
        if self._folder.toUri().getScheme() != "file":
            return self.rename(old, new)
        link, file = (
            self._java.java.io.File(self._path(each).toUri().getPath()).toPath()
            for each in (new, old)
        )
        try:
            self._java.java.nio.file.Files.createLink(link, file)
        except Py4JJavaError as error:
            return self._refused(error)
        self.remove(old)
        return True

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing happens if it is not there."""
        self._files.delete(self._path(path), True)
