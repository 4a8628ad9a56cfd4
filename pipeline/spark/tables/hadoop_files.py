"""The files of a table, through the Hadoop file systems that Spark itself uses.

Only this module calls into Spark's JVM, which has no types in Python. A path may be anything that
Spark can write: `/data/lake`, `hdfs://...`, `s3a://...`.

S3 has no rename. Hadoop copies an object on the server and then deletes the old one; the new one
appears whole or not at all, so after a kill there may be both, and never a torn one. That is enough
to move files, but not to publish one: two writers could both find the name free. So a file is
published in S3 with a conditional PUT (`If-None-Match: *`), which fails if the name exists.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredFile(NamedTuple):
    """A file below a folder: its relative path, with slashes, and its size."""

    path: str
    nbytes: int


class HadoopFiles:
    """The files below one folder; every path is relative to it."""

    def __init__(self, spark: "SparkSession", folder: str) -> None:
        # py4j creates its attributes dynamically.
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
        """The name that Spark uses to read and write a path."""
        return str(self._path(path).toString())

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; empty if there is no such folder."""
        if not self.exists(path):
            return []
        return sorted(
            str(each.getPath().getName()) for each in self._files.listStatus(self._path(path))
        )

    def below(self, path: str) -> list[StoredFile]:
        """All files below a folder at any depth, except below names that begin with `_` or `.`."""
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
        """Write a new file, and any missing folders, as durably as the file system can."""
        stream = self._files.create(self._path(path), False)
        try:
            stream.write(bytearray(text.encode()))
            if stream.hasCapability("hsync"):
                stream.hsync()
        finally:
            stream.close()

    def make_folder(self, path: str) -> None:
        self._files.mkdirs(self._path(path))

    def rename(self, old: str, new: str) -> bool:
        """Rename a file or folder; False if the new name exists.

        Another job may do the same at this moment: then the old name may have gone, too.
        """
        rename = self._java.org.apache.hadoop.fs.Options.Rename
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.NONE
        try:
            self._context.rename(self._path(old), self._path(new), how)
        except Py4JJavaError as error:
            if "FileNotFound" in str(cast("Any", error).java_exception) and self.exists(new):
                return False
            return self._refused(error)
        return True

    @staticmethod
    def _refused(error: Py4JJavaError) -> bool:
        """Return False if the error says that the name exists; otherwise raise it."""
        if "FileAlreadyExists" not in str(cast("Any", error).java_exception):
            raise error
        return False

    def publish(self, old: str, new: str) -> bool:
        """Rename a small file of text atomically; False if the new name exists.

        In S3 a repeated request finds what it wrote itself at the first try, so after a False the
        caller has to look whether the content is its own.

        Hadoop checks the new name of a local file and then renames it, so another job may come in
        between. So a local file is published with a hard link, which fails if the name exists.
        """
        scheme = str(self._folder.toUri().getScheme())
        if scheme in ("s3", "s3a"):
            return self._publish_by_condition(old, new)
        if scheme != "file":
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

    def _publish_by_condition(self, old: str, new: str) -> bool:
        text = self.read(old)
        builder = self._files.createFile(self._path(new))
        # An option that must be: a Hadoop without it refuses, and does not overwrite.
        builder.must("fs.option.create.conditional.overwrite", True)
        stream = builder.build()
        try:
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError:
            # Refused (412), in conflict with a request at the same moment (409), or lost.
            if not self.exists(new):
                raise
            return False
        self.remove(old)
        return True

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder, if it exists."""
        self._files.delete(self._path(path), True)
