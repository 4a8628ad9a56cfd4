"""What Python says of modules of ours that use what a later Python will not have."""

import re

_LINE = re.compile(r"^\S*[/.]tierlog[/.]\S*: \w*DeprecationWarning: .*", re.MULTILINE)


def deprecations_of_ours(log: str) -> list[str]:
    """The lines of a process's log that name a module of tierlog; those of others do not count."""
    return _LINE.findall(log)
