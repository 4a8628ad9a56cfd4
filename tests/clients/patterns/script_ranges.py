"""Writes clients/patterns/scripts.py: which characters each of Unicode's scripts has, as RE2 says.

`python -m tierlog.tests.clients.patterns.script_ranges` writes the file anew: the names that are in
it, which are those of RE2/J, and those that follow on the command line.
"""

import sys
from collections.abc import Iterable

from tierlog.clients.patterns.scripts import SCRIPTS
from tierlog.tests.clients.patterns.google_re2 import compiled
from tierlog.tests.house_rules import ROOT

FILE = ROOT / "clients" / "patterns" / "scripts.py"
CHARACTERS = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
HEAD = '''"""The characters of Unicode's scripts, for which `\\\\p{Greek}` and its like stand.

A range is `gap+more` in hexadecimal: the gap from the end of the range before, and how many more
characters it has than one. Written by `python -m tierlog.tests.clients.patterns.script_ranges`.
"""

SCRIPTS = {
'''
_LINE = 88


def packed(name: str) -> str:
    """The ranges of a script."""
    end, parts = 0, list[str]()
    for found in compiled(rf"\p{{{name}}}+").findall(CHARACTERS):
        first, last = ord(found[0]), ord(found[-1])
        parts.append(f"{first - end:x}" + (f"+{last - first:x}" if last > first else ""))
        end = last
    return " ".join(parts)


def _quoted(text: str) -> list[str]:
    """A text as string literals, a line each."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _LINE:
            lines.append("")
        lines[-1] += f" {word}" if lines != [""] else word
    return [f'"{line}"' for line in lines]


def text_of(names: Iterable[str]) -> str:
    """The file."""
    entries = list[str]()
    for name in sorted(names):
        lines = _quoted(packed(name))
        if len(lines) == 1 and len(name) + len(lines[0]) < _LINE:
            entries.append(f'    "{name}": {lines[0]},\n')
        else:
            body = "".join(f"        {line}\n" for line in lines)
            entries.append(f'    "{name}": (\n{body}    ),\n')
    return HEAD + "".join(entries) + "}\n"


if __name__ == "__main__":
    FILE.write_text(text_of({*SCRIPTS, *sys.argv[1:]}), "utf-8")
