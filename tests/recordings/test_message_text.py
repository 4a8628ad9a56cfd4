"""Messages as text are read back as they were."""

import pytest

from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.clients.protocol.schema import Message
from tierlog.tests.clients.protocol.served_messages import (
    identify,
    message_versions,
    random_message,
)
from tierlog.tests.recordings.message_text import (
    TextError,
    answer_to_text,
    from_text,
    request_to_text,
    shortened_answer,
    shortened_request,
)


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_any_message_comes_back_from_its_text(cls: type[Message], version: int) -> None:
    for seed in range(3):
        message = random_message(cls, version, f"text {seed}")
        assert from_text(answer_to_text(message, {}), cls, {}) == message


def test_a_text_is_a_constructor_call_without_what_has_its_default() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="known")])
    assert (
        answer_to_text(request, {})
        == "MetadataRequest(topics=[MetadataRequestTopic(name='known')])"
    )


def test_what_does_not_fit_on_a_line_has_a_line_for_each_field() -> None:
    topics = [MetadataRequestTopic(name=letter * 40) for letter in "ab"]
    text = answer_to_text(MetadataRequest(topics=topics, allow_auto_topic_creation=False), {})
    assert text.splitlines() == [
        "MetadataRequest(",
        "  topics=[",
        f"    MetadataRequestTopic(name='{'a' * 40}'),",
        f"    MetadataRequestTopic(name='{'b' * 40}'),",
        "  ],",
        "  allow_auto_topic_creation=False,",
        ")",
    ]


def test_a_value_that_differs_from_run_to_run_has_a_name() -> None:
    brokers = [MetadataResponseBroker(node_id=9092, host="127.0.0.1", port=9092)]
    answer = MetadataResponse(brokers=brokers)
    text = answer_to_text(answer, {("port", 9092): "PORT"})
    assert "node_id=9092, host='127.0.0.1', port=PORT" in text
    read = from_text(text, MetadataResponse, {"PORT": 1})
    assert isinstance(read, MetadataResponse)
    assert read.brokers[0].port == 1


def test_long_bytes_are_compressed() -> None:
    batch = PartitionProduceData(records=memoryview(bytes(100_000)))
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[batch])])
    text = answer_to_text(request, {})
    assert len(text) < 500
    assert from_text(text, ProduceRequest, {}) == request


def test_a_long_message_is_compressed() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(10_000)]
    request = MetadataRequest(topics=topics)
    text = shortened_answer(answer_to_text(request, {}))
    assert len(text) < 100_000
    assert from_text(text, MetadataRequest, {}) == request


def test_two_requests_that_differ_have_different_texts() -> None:
    """However long they are: a request is only compared, so a digest is enough."""
    texts = {
        shortened_request(request_to_text(MetadataRequest(topics=[*topics, last]), {}))
        for topics in ([], [MetadataRequestTopic(name="a" * 100)] * 1_000)
        for last in (MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b"))
    }
    assert len(texts) == 4
    assert max(map(len, texts)) < 100


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("MetadataRequest(", "is not a message"),
        ("MetadataResponse()", "a MetadataRequest is expected, not a MetadataResponse"),
        ("MetadataRequest(name='a')", "MetadataRequest has no field name"),
        ("[1]", "a MetadataRequest is expected"),
    ],
)
def test_a_text_that_is_no_such_message_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(TextError, match=sentence):
        from_text(text, MetadataRequest, {})
