"""docs/server.properties: every property that the broker acts on, with its default, to start from.

    make sample     writes the file anew, from the tables in the code

What is not commented out is what a first broker with a tier states; the rest stands at its default.
"""

from tierlog.broker.config.config_values import TABLES
from tierlog.clients.config_def import ConfigDef
from tierlog.tests.house_rules import ROOT

SAMPLE = ROOT / "docs" / "server.properties"

_HEAD = """\
# A server.properties for tierlog, complete: copy it, change what you need, and start with
#
#     .venv/bin/tierlog serve --config server.properties
#
# The names are Kafka's, and so are types, units and defaults, but for those that
# docs/configuration.md lists. A line that is commented out shows the default. Written by
# `make sample`.
"""

_STATED = {
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "./data",
    "process.roles": "broker,controller",
    "node.id": "0",
}

_TIER = """
# The tier: naming a URL switches tiering on; topics opt in with remote.storage.enable=true, or all
# new ones with log.remote.storage.enable=true. Any fsspec URL: file:///…, s3://bucket/prefix,
# gs://, abfs://, sftp://, webhdfs:// (docs/tiers.md).
rsm.config.url=file:///tmp/tierlog-remote
# An option of the URL's file system is rsm.config.option.<name>; secrets come from the environment
# or a file (docs/configuration.md, "Secrets"):
#config.providers=env
#config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
#rsm.config.option.key=${env:TIER_KEY}
#rsm.config.option.secret=${env:TIER_SECRET}
#rsm.config.option.endpoint_url=http://localhost:9000

# Another cluster's tier, shown read-only:
#tierlog.mount.archive.url=s3://their-bucket/prefix
"""

_GROUPS = (
    ("The process and its listeners", ("process.", "node.", "broker.", "listener", "advertised.")),
    (
        "Connections",
        ("inter.broker.", "controller.", "socket.", "connections.", "max.con"),
    ),
    ("The tier", ("rsm.", "remote.", "log.remote.", "log.local.", "tierlog.")),
    ("Logs: retention, segments, compaction", ("log.", "message.", "compression.", "min.insync.")),
    ("Topics", ("num.", "default.", "auto.", "delete.", "unclean.")),
    ("Groups and offsets", ("group.", "offset")),
    ("Transactions and producers", ("transaction", "producer.")),
    ("Everything else", ("",)),
)


def text() -> str:
    """What the file has to hold."""
    left = dict(TABLES.acted_on)
    lines = [_HEAD]
    for title, prefixes in _GROUPS:
        names = sorted(name for name in left if name.startswith(prefixes))
        lines.append(f"\n########## {title}\n")
        if title == "The tier":
            lines.append(_TIER)
        lines += [_lines(left.pop(name)) for name in names]
    return "".join(lines)


def _lines(definition: ConfigDef) -> str:
    name, default = definition.name, definition.default
    rule = f" {definition.validator}" if definition.validator else ""
    none = "; no default" if default is None else ""
    what = f"\n# {definition.documentation} ({definition.type.name}{rule}{none})\n"
    if name in _STATED:
        note = "" if default == _STATED[name] else f"# default: {default or 'none'}\n"
        return f"{what}{note}{name}={_STATED[name]}\n"
    return f"{what}#{name}={'' if default is None else default}\n"


if __name__ == "__main__":
    SAMPLE.write_text(text())
