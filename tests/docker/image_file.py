"""What docker/Containerfile says of the image, as far as a process without an engine has it."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tierlog.tests.house_rules import ROOT

FOLDER = ROOT / "docker"
SOURCE = FOLDER / "Containerfile"


@dataclass(slots=True)
class Image:
    """The last stage of a Containerfile."""

    environment: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, Path] = field(default_factory=dict[str, Path])
    """Files of the repository by their place in the image."""
    command: list[str] = field(default_factory=list[str])
    health: list[str] = field(default_factory=list[str])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    """USER, STOPSIGNAL, VOLUME and EXPOSE, as they stand there."""


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction and what follows it, with continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    pairs = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [(pair[0].upper(), pair[1].strip()) for pair in pairs]


def image(text: str | None = None) -> Image:
    """The image that the Containerfile describes."""
    described = Image()
    for word, rest in instructions(text if text is not None else SOURCE.read_text()):
        match word:
            case "FROM":
                described = Image()
            case "ENV":
                name, _, value = rest.partition("=")
                described.environment[name] = value
            case "COPY" if not rest.startswith("--from"):
                words = [word for word in shlex.split(rest) if not word.startswith("--chown=")]
                *sources, target = words
                if len(sources) == 1:
                    described.files[target] = ROOT / sources[0]
            case "CMD":
                described.command = json.loads(rest)
            case "HEALTHCHECK":
                described.health = json.loads(rest.partition(" CMD ")[2])
            case "USER" | "STOPSIGNAL" | "VOLUME" | "EXPOSE":
                described.settings[word] = rest
            case _:
                pass
    return described
