"""What `tierlog secure init` writes for people: a broker's file, and programs of its clients."""

import json
import re
import shlex
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

MECHANISM = "SCRAM-SHA-512"
TOPIC = "hello"
"""Where the clients' lines write a record."""


class SecuredBroker(NamedTuple):
    """A broker for development, and its directory."""

    directory: str
    """An absolute path."""
    host: str
    """The name or address under which clients reach it."""
    port: int
    """The port for clients; the next one is for nodes."""
    user: str

    def path(self, name: str) -> str:
        """The path of a file in the directory."""
        return f"{self.directory}/{name}"

    @property
    def address(self) -> str:
        """Where clients connect, as ``HOST:PORT``."""
        return f"{_in_address(self.host)}:{self.port}"

    @property
    def bound(self) -> str:
        """The host to listen at: only an address of this machine if clients are on it."""
        try:
            return _in_address(self.host) if ip_address(self.host).is_loopback else ""
        except ValueError:
            return "127.0.0.1" if self.host == "localhost" else ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names and addresses in the broker's certificate."""
        return tuple(dict.fromkeys((self.host, "localhost", "127.0.0.1", "::1")))


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _value(text: str) -> str:
    """A text as the value of a property, in a file that Java reads as Latin-1."""
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        f"\\u{code:04x}" if not 32 <= code < 127 else f"\\{chr(code)}" if code == 92 else chr(code)
        for code in codes
    )


def server_properties(broker: SecuredBroker) -> str:
    """The broker's file. It holds no secret: keys and users are elsewhere."""
    data = _value(broker.path("data"))
    return f"""\
# A broker for development, with TLS, SASL and ACLs: tierlog serve --config THIS_FILE
process.roles=broker,controller
node.id=0
log.dirs={data}
rsm.config.url=file://{data}/remote
group.initial.rebalance.delay.ms=0

# Clients come over TLS and prove their name with a password; nodes have a certificate.
listeners=SASL_SSL://{broker.bound}:{broker.port},NODES://127.0.0.1:{broker.port + 1}
advertised.listeners=SASL_SSL://{broker.address},NODES://localhost:{broker.port + 1}
listener.security.protocol.map=SASL_SSL:SASL_SSL,NODES:SSL
inter.broker.listener.name=NODES
sasl.enabled.mechanisms={MECHANISM}
listener.name.nodes.ssl.client.auth=required

ssl.keystore.type=PEM
ssl.keystore.location={_value(broker.path("broker.pem"))}
ssl.truststore.type=PEM
ssl.truststore.location={_value(broker.path("ca.pem"))}

# Only these two may do anything, until kafka-acls gives rights to others.
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{broker.user};User:CN=broker
"""


def client_properties(broker: SecuredBroker, password: str) -> str:
    """The properties of Java clients and of Kafka's tools."""
    return f"""\
bootstrap.servers={broker.address}
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={_value(broker.path("ca.pem"))}
sasl.mechanism={MECHANISM}
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="{broker.user}" password="{password}";
"""


def client_lines(broker: SecuredBroker) -> str:
    """A page with a program for each of five clients; each writes one record.

    The programs read the password from its file, so that no copy of them holds it.
    """
    texts = {
        "ADDRESS": broker.address,
        "CA": broker.path("ca.pem"),
        "PASSWORD": broker.path("password"),
        "PROPERTIES": broker.path("client.properties"),
        "USER": broker.user,
        "TOPIC": TOPIC,
        "MECHANISM": MECHANISM,
    }
    return _PLACE.sub(lambda match: _LOOKS[match[1]](texts[match[2]]), _PAGE)


_PLACE = re.compile(r"<(|plain |shell )([A-Z]+)>")
_LOOKS: dict[str, Callable[[str], str]] = {
    # A string of JSON is one of Python, Java, Go and JavaScript as well.
    "": lambda text: json.dumps(text, ensure_ascii=False),
    "plain ": str,
    "shell ": shlex.quote,
}

_PAGE = """\
# Clients of the broker at <plain ADDRESS>

Each program writes a record to the topic `<plain TOPIC>`. The password is in `<plain PASSWORD>`.

## confluent-kafka (Python)

```python
from confluent_kafka import Producer

with open(<PASSWORD>) as file:
    password = file.read()
producer = Producer({
    "bootstrap.servers": <ADDRESS>,
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": <CA>,
    "sasl.mechanisms": <MECHANISM>,
    "sasl.username": <USER>,
    "sasl.password": password,
})
producer.produce(<TOPIC>, b"confluent-kafka")
producer.flush()
```

## aiokafka (Python)

```python
import asyncio

from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context


async def main():
    with open(<PASSWORD>) as file:
        password = file.read()
    producer = AIOKafkaProducer(
        bootstrap_servers=<ADDRESS>,
        security_protocol="SASL_SSL",
        ssl_context=create_ssl_context(cafile=<CA>),
        sasl_mechanism=<MECHANISM>,
        sasl_plain_username=<USER>,
        sasl_plain_password=password,
    )
    async with producer:
        await producer.send_and_wait(<TOPIC>, b"aiokafka")


asyncio.run(main())
```

## Java

```java
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class Hello {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        try (var file = Files.newInputStream(Path.of(<PROPERTIES>))) {
            properties.load(file);
        }
        var text = new StringSerializer();
        try (var producer = new KafkaProducer<String, String>(properties, text, text)) {
            producer.send(new ProducerRecord<>(<TOPIC>, "Java")).get();
        }
    }
}
```

Kafka's tools take the same file, and so does `tierlog`:

    kafka-topics.sh --bootstrap-server <plain ADDRESS> --command-config <shell PROPERTIES> --list
    tierlog topic ls --command-config <shell PROPERTIES>

## franz-go

```go
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func read(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return content
}

func main() {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(read(<CA>))
	login := scram.Auth{User: <USER>, Pass: string(read(<PASSWORD>))}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(<ADDRESS>),
		kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}),
		kgo.SASL(login.AsSha512Mechanism()),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: <TOPIC>, Value: []byte("franz-go")}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		panic(err)
	}
}
```

## kafkajs

```js
const fs = require("fs");
const { Kafka } = require("kafkajs");

const kafka = new Kafka({
  brokers: [<ADDRESS>],
  ssl: { ca: [fs.readFileSync(<CA>, "utf8")] },
  sasl: {
    mechanism: "scram-sha-512",
    username: <USER>,
    password: fs.readFileSync(<PASSWORD>, "utf8"),
  },
});

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: <TOPIC>, messages: [{ value: "kafkajs" }] });
  await producer.disconnect();
}

main();
```
"""
