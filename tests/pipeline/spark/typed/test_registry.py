"""A registry is believed nothing: what it answers is bounded, checked and named."""

import base64
import json
import logging
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from tierlog.pipeline.spark.typed.registered_schema import SchemaError
from tierlog.pipeline.spark.typed.registry import MAX_ANSWER_BYTES, SchemaRegistry
from tierlog.pipeline.spark.typed.schemas import MAX_REFERENCES, MAX_VERSIONS, Schemas
from tierlog.tests.pipeline.spark.typed.hostile_registry import (
    Answer,
    answer,
    drip,
    drip_headers,
    drip_to_the_end,
    flood_a_chunk,
    registry,
)

VERSIONS = "/subjects/a/versions"
EVERY = f"{VERSIONS}?deleted=true"
FIRST = f"{VERSIONS}/1?deleted=true"


def good(**changed: object) -> dict[str, Answer]:
    """A subject of one version."""
    stated: dict[str, object] = {"subject": "a", "version": 1, "id": 7, "schema": '"long"'}
    return {
        VERSIONS: answer([1]),
        EVERY: answer([1]),
        FIRST: answer({**stated, **changed}),
    }


def refusal(answers: dict[str, Answer]) -> str:
    with registry(answers) as (url, _):
        schemas = Schemas(SchemaRegistry(url, timeout_s=1))
        with pytest.raises(SchemaError) as caught:
            schemas.subject("a")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (answer([], 302, "Location: file:///etc/passwd\r\n"), "a redirect, which is not followed"),
        (answer([], 401), "with 401: check the option user"),
        (answer({"message": "no\nsuch " * 99}, 500), "with 500: no such no such"),
        (answer(b"<html>", 500), "with 500"),
        (answer(b"<html>"), "is not JSON"),
        (answer(b"[" * 100_000), "is nested too deeply"),
        (answer(b"\xff\xfe\xfd"), "is not JSON"),
        (answer({}), "is not a JSON array"),
        (answer([]), "has no version of subject 'a'"),
        (answer(["1"]), "is not a number from 0"),
        (answer([True]), "is not a number from 0"),
        (answer([2**31]), "is not a number from 0"),
        (answer([-1]), "is not a number from 0"),
        (answer([1.5]), "is not a number from 0"),
        (answer(list(range(MAX_VERSIONS + 1))), "more than 1000 versions"),
        (answer(b" " * (MAX_ANSWER_BYTES + 1)), "answers with more than 4194304 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1]", "ends too early"),
        (b"SSH-2.0-x\r\n", "cannot be reached"),
        (b"", "cannot be reached"),
        (drip, "no whole answer within 1 s"),
        (drip_headers, "no whole answer within 1 s"),
        (drip_to_the_end, "no whole answer within 1 s"),
        (flood_a_chunk, "got more than 65536 bytes"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n[1]\r\n0\r\n\r\n",
            "cannot be reached",
        ),
    ],
)
def test_a_bad_list_of_versions_ends_with_one_sentence(listed: Answer, message: str) -> None:
    assert message in refusal({**good(), VERSIONS: listed, EVERY: listed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"id": "7"}, "The id of Version 1 of subject 'a' is not a number"),
        ({"schema": {"type": "long"}}, "is not a string"),
        ({"schema": None}, "is not a string"),
        ({"schemaType": "THRIFT"}, "is 'THRIFT'; only AVRO and JSON are decoded"),
        ({"schemaType": 3}, "is not a string"),
        ({"references": 3}, "is not a JSON array"),
        ({"references": [3]}, "is not a JSON object"),
        ({"references": [{"name": "n", "subject": "b", "version": "1"}]}, "is not a number"),
        ({"references": [{"name": "n", "subject": "b", "version": 1}]}, "with 404: none"),
        ({"references": [{"name": "n", "subject": "b" * 9999, "version": 1}]}, "with 404: none"),
        (
            {"references": [{"name": "n", "subject": "\ud800", "version": 1}]},
            "The subject of a reference of Version 1 of subject 'a' holds half a character",
        ),
    ],
)
def test_a_bad_version_ends_with_one_sentence(changed: dict[str, object], message: str) -> None:
    assert message in refusal(good(**changed))


def test_references_are_bounded_also_when_each_leads_to_more() -> None:
    def refers(number: int) -> dict[str, object]:
        more = [{"name": f"n{number}", "subject": "b", "version": number}]
        return {"schema": '"long"', "references": more}

    links = {
        f"/subjects/b/versions/{each}?deleted=true": answer(refers(each + 1))
        for each in range(MAX_REFERENCES + 5)
    }
    assert "more than 100 schemas" in refusal({**good(**refers(0)), **links})


def test_references_in_a_circle_end_and_one_name_means_one_schema() -> None:
    mine = [{"name": "n", "subject": "b", "version": 1}]
    circle = {"/subjects/b/versions/1?deleted=true": answer({"schema": "{}", "references": mine})}
    with registry({**good(references=mine), **circle}) as (url, _):
        assert Schemas(SchemaRegistry(url)).subject("a").newest.references == {"n": "{}"}
    other = [{"name": "n", "subject": "c", "version": 1}]
    two = {"/subjects/b/versions/1?deleted=true": answer({"schema": "{}", "references": other})}
    assert "refers to 'n' as 'b' version 1 and as 'c'" in refusal({**good(references=mine), **two})


def test_the_password_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with registry(good()) as (url, requests):
        client = SchemaRegistry(url, user="me:s3cret")
        Schemas(client).subject("a")
        with pytest.raises(SchemaError) as caught:
            Schemas(client).subject("none")
    sent = base64.b64encode(b"me:s3cret").decode()
    assert all(f"Authorization: Basic {sent}" in each for each in requests)
    for text in (repr(client), str(client), str(caught.value), caplog.text):
        assert "s3cret" not in text
        assert sent not in text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://me:s3cret@127.0.0.1:1", "holds a user, which logs would show"),
        ("file:///etc/passwd", "is not the http or https URL"),
        ("127.0.0.1:8081", "is not the http or https URL"),
        ("http://127.0.0.1:99999", "is not valid"),
        ("http://127.0.0.1:1/?a=b", "has a query"),
    ],
)
def test_a_url_that_is_none_of_a_registry_is_refused(url: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        SchemaRegistry(url)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(SchemaError, match="not of the form name:password"):
        SchemaRegistry("http://127.0.0.1:1", user="s3cret")


@pytest.mark.parametrize("host", ["a..b", "a b", "a" * 64])
def test_a_host_that_is_none_cannot_be_reached(host: str) -> None:
    with pytest.raises(SchemaError, match="cannot be reached"):
        SchemaRegistry(f"http://{host}").versions("a")


def test_a_subject_stays_as_it_was_when_a_refresh_fails() -> None:
    answers = good()
    with registry(answers) as (url, requests):
        schemas = Schemas(SchemaRegistry(url))
        known = schemas.subject("a")
        assert not schemas.refresh()
        assert sum("/versions/1?" in each for each in requests) == 1, "a schema is asked for once"
        answers[VERSIONS] = answer([1, 2])
        with pytest.raises(SchemaError):
            schemas.refresh()
        assert schemas.subject("a") == known
        more = {"id": 9, "schema": '"double"'}
        answers[EVERY] = answer([1, 2])
        answers[f"{VERSIONS}/2?deleted=true"] = answer(more)
        assert schemas.refresh()
        assert schemas.subject("a").newest.schema_id == 9
        # A registry that forgets a version does not make its records undecoded.
        answers[VERSIONS] = answers[EVERY] = answer([2])
        schemas.refresh()
        assert sorted(schemas.subject("a").schemas) == [7, 9]
        answers["/schemas/ids/3"] = answer({"schema": '"int"'})
        assert sorted(schemas.subject("a", ids=[3, 7]).schemas) == [3, 7, 9]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps([1] if "versions/" not in self.path else {"id": 7, "schema": '"int"'})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # its name there
        """Say nothing."""


def test_https_needs_an_authority_that_is_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = authority.issue_cert("127.0.0.1")
    certificate.configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        trusted = SchemaRegistry(url, ca_file=str(tmp_path / "ca.pem"))
        assert Schemas(trusted).subject("a").newest.schema_id == 7
        with pytest.raises(SchemaError, match=r"cannot be reached.*certificate verify failed"):
            Schemas(SchemaRegistry(url)).subject("a")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
    with pytest.raises(SchemaError, match="The CA file"):
        SchemaRegistry(url, ca_file=str(tmp_path / "none.pem"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"format": "other"}', "is not a file of schemas"),
        ('{"format": "tierlog schemas 1"}', "is not a JSON object"),
        ('{"format": "tierlog schemas 1", "subjects": {"a": 3}}', "is not a JSON object"),
        ('{"format": "tierlog schemas 1", "subjects": {"a": {"schemas": 1}}}', "not a JSON array"),
        ('{"format": "tierlog schemas 1", "subjects": {"a": {"schemas": [1]}}}', "a JSON object"),
        (
            '{"format": "tierlog schemas 1", "subjects": {"a": {"schemas": [], "newest": 1}}}',
            "is not among its schemas",
        ),
    ],
)
def test_a_file_that_is_none_of_schemas_is_refused(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "schemas.json"
    path.write_text(content)
    with pytest.raises(SchemaError, match=message):
        Schemas.of_file(str(path))
    with pytest.raises(SchemaError, match="cannot be read"):
        Schemas.of_file(str(tmp_path / "none.json"))


def test_wrong_types_within_a_saved_file_are_refused_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    with registry(good()) as (url, _):
        schemas = Schemas(SchemaRegistry(url))
        schemas.subject("a")
    schemas.save(str(path))
    saved = json.loads(path.read_text())
    assert Schemas.of_file(str(path)).subject("a") == schemas.subject("a")
    for name in ("id", "schemaType", "schema", "references"):
        changed = json.loads(path.read_text())
        changed["subjects"]["a"]["schemas"][0][name] = [[]]
        path.write_text(json.dumps(changed))
        with pytest.raises(SchemaError):
            Schemas.of_file(str(path))
        path.write_text(json.dumps(saved))
