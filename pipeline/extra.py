"""The packages that only the extras `spark` and `arrow` install, and the error without them."""

_PACKAGES = frozenset(
    {"confluent_kafka", "cramjam", "jinja2", "matplotlib", "numpy", "pandas", "py4j"}
    | {"pyarrow", "pyspark", "rich"}
)


def is_missing_extra(error: ModuleNotFoundError) -> bool:
    """Whether the missing module belongs to the extra."""
    return (error.name or "").partition(".")[0] in _PACKAGES


def missing_extra(error: ModuleNotFoundError, extra: str = "spark") -> ImportError:
    """An error that says how to install the extra; `error` itself if another module is missing."""
    if not is_missing_extra(error):
        return error
    return ImportError(
        f"{error.name} is not installed: pip install 'tierlog[{extra}]', or in a clone"
        f" pip install -e '.[{extra}]'",
        name=error.name,
    )
