"""What only the extra `spark` brings, and what to do where it is not installed."""

_PACKAGES = frozenset(
    {"confluent_kafka", "cramjam", "jinja2", "matplotlib", "numpy", "pandas", "py4j", "pyarrow"}
    | {"pyspark", "rich"}
)


def is_missing_extra(error: ModuleNotFoundError) -> bool:
    """Whether the module that was not found would have come with the extra."""
    return (error.name or "").partition(".")[0] in _PACKAGES


def missing_extra(error: ModuleNotFoundError) -> ImportError:
    """The error that says how to install the extra; `error` itself where that would not help."""
    if not is_missing_extra(error):
        return error
    return ImportError(
        f"{error.name} is not installed: pip install 'tierlog[spark]', or in a clone"
        " pip install -e '.[spark]'",
        name=error.name,
    )
