"""An old client in Python, installed beside this file: writes records, reads them in a group.

    python client.py confluent_kafka 127.0.0.1:9092 topic 20

Prints how many records it has read and committed.
"""

import sys
from importlib import import_module
from pathlib import Path


def confluent_kafka(bootstrap: str, topic: str, count: int) -> int:
    client = import_module("confluent_kafka")
    producer = client.Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = client.Consumer(settings)
    consumer.subscribe([topic])
    read = 0
    while read < count:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            read += 1
    consumer.commit(asynchronous=False)
    consumer.close()
    return read


def kafka(bootstrap: str, topic: str, count: int) -> int:
    client = import_module("kafka")
    producer = client.KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for sent in [producer.send(topic, b"%d" % number) for number in range(count)]:
        sent.get(60)
    producer.close()
    settings = {"group_id": topic, "auto_offset_reset": "earliest"}
    consumer = client.KafkaConsumer(topic, bootstrap_servers=bootstrap, **settings)
    read = 0
    while read < count:
        read += sum(map(len, consumer.poll(1000).values()))
    consumer.commit()
    consumer.close()
    return read


if __name__ == "__main__":
    name, bootstrap, topic, count = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parent / "packages"))
    print({"confluent_kafka": confluent_kafka, "kafka": kafka}[name](bootstrap, topic, int(count)))
