"""The entry point of `tierlog-spark`; prints a plain message if the extra is not installed."""

from collections.abc import Sequence

from ...clients.runtime.supported_system import refusal

if (_message := refusal()) is not None:
    raise SystemExit(f"tierlog-spark: {_message}")

from ...tiering.tools.terminal import cannot_run
from ..extra import is_missing_extra, missing_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; returns the exit code."""
    try:
        from .command_line import main as run

        return run(arguments)
    except ModuleNotFoundError as error:
        if not is_missing_extra(error):
            raise
        return cannot_run(f"{missing_extra(error)}.")


if __name__ == "__main__":
    raise SystemExit(main())
