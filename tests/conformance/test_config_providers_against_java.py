"""Variables of secrets, resolved by Kafka's `AbstractConfig` and by us from the same files.

Where Kafka leaves a variable as it is written, the password would be that text: we refuse it.
"""

import base64
import os
from pathlib import Path

import pytest

from tierlog.broker.config.config_providers import resolve_variables
from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties
from tierlog.storage.files import OsFiles
from tierlog.tests.conformance.java_programs import run_java

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

PACKAGE = "org.apache.kafka.common.config.provider"
HEAD = f"""\
config.providers=file,env,directory,narrow
config.providers.file.class={PACKAGE}.FileConfigProvider
config.providers.env.class={PACKAGE}.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=TIERLOG_TEST_.*
config.providers.directory.class={PACKAGE}.DirectoryConfigProvider
config.providers.narrow.class={PACKAGE}.FileConfigProvider
config.providers.narrow.param.allowed.paths=FOLDER/allowed
"""
SAME = [
    "plain text",
    "$ {env:TIERLOG_TEST_SECRET} }{",
    "${env:TIERLOG_TEST_SECRET}",
    "${env:TIERLOG_TEST_EMPTY}",
    "${env:TIERLOG_TEST_NESTED}",
    "${file:FOLDER/secrets.properties:password}",
    "${file:FOLDER/secrets.properties:odd name}",
    "${file:FOLDER/secrets.properties:escaped}",
    "${directory:FOLDER:one}",
    "${narrow:FOLDER/allowed/more.properties:password}",
    "${narrow:FOLDER/allowed/../allowed/more.properties:password}",
    'required user_a="${env:TIERLOG_TEST_SECRET}" user_b="${directory:FOLDER:one}";',
    "${env:TIERLOG_TEST_SECRET}${env:TIERLOG_TEST_SECRET}",
]
REFUSED_BY_BOTH = [
    "${file:FOLDER/absent.properties:password}",
    "${env:FOLDER:TIERLOG_TEST_SECRET}",
]
TEXT_IN_KAFKA = [
    "${file:FOLDER/secrets.properties:absent}",
    "${env:TIERLOG_TEST_ABSENT}",
    "${env:PATH}",
    "${directory:FOLDER:absent}",
    "${narrow:FOLDER/secrets.properties:password}",
    "${narrow:FOLDER/allowed/../secrets.properties:password}",
    "${vault:a:b}",
    "${${env:TIERLOG_TEST_SECRET}}",
]


def ours(stated: dict[str, str]) -> str:
    try:
        return resolve_variables(stated, OsFiles().read, os.environ)["secret"]
    except KafkaError:
        return "refused"


def test_variables_have_kafkas_values_or_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERLOG_TEST_SECRET", "hüsh$1\\")
    monkeypatch.setenv("TIERLOG_TEST_EMPTY", "")
    monkeypatch.setenv("TIERLOG_TEST_NESTED", "${env:TIERLOG_TEST_SECRET}")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "more.properties").write_text("password=inside\n")
    (tmp_path / "secrets.properties").write_text(
        "password = a=b:c \nodd\\ name=x\nescaped=\\u00e9\\\n  joined\n"
    )
    (tmp_path / "one").write_text("no line end")
    paths: list[Path] = []
    for number, text in enumerate([*SAME, *REFUSED_BY_BOTH, *TEXT_IN_KAFKA]):
        path = tmp_path / f"{number}.properties"
        path.write_text(f"{HEAD}secret={text}\n".replace("FOLDER", str(tmp_path)))
        paths.append(path)
    stated = [parse_properties(path.read_text()) for path in paths]
    # Kafka logs to the same place.
    lines = run_java("ConfigProviders.java", list(map(str, paths)))
    texts = [line.removeprefix("secret ") for line in lines if line.startswith("secret ")]
    answers = [text if text == "refused" else base64.b64decode(text).decode() for text in texts]
    mine = [ours(each) for each in stated]
    count = len(SAME)
    assert mine[:count] == answers[:count]
    assert set(mine[count:]) == {"refused"}
    both = count + len(REFUSED_BY_BOTH)
    assert set(answers[count:both]) == {"refused"}
    assert answers[both:] == [each["secret"] for each in stated[both:]]
