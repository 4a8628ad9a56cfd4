"""What clients say of an error, without what is another in each run or each TLS library."""

import re

_OF_THIS_RUN = (
    (re.compile(r"127\.0\.0\.1:\d+(<-\d+)?"), "ADDRESS"),
    (re.compile(r"\('127\.0\.0\.1', \d+,"), "('ADDRESS',"),
    (re.compile(r"after \d+ms"), "after some ms"),
    (re.compile(r"current time [\w:-]+"), "current time NOW"),
    # How far a connection of kafka-python had come.
    (re.compile(r"<Kafka(Connection|\w+Transport) .*?>+(?= ?:)"), "CONNECTION"),
    (re.compile(r"\(backoff [\d.]+ secs\)"), "(backoff)"),
    (re.compile(r"host=127\.0\.0\.1 port=\d+"), "ADDRESS"),
    # Its last attempt ends when its patience does.
    (re.compile(r"\nlogged: .*RequestTimedOutError.*"), ""),
    # It is closed while it refreshes.
    (re.compile(r"\nlogged: Metadata refresh: failed Cancelled"), ""),
    # librdkafka says more or less of a handshake by whether the broker answers before it looks.
    (re.compile(r"_(SSL|TRANSPORT): (\S*ssl://)"), r"_SSL: \2"),
    (re.compile(r"SSL handshake failed: "), ""),
    (re.compile(r": broker certificate could not be verified,.* package\)"), ""),
    (re.compile(r": connecting to a PLAINTEXT broker listener\?"), ""),
    (re.compile(r"Unable to produce message: "), ""),
)


_ALERTS = re.compile(
    r"([0-9A-F]+:)?error:0A000[0-9A-F]{3}:SSL routines:.*?: ?SSL alert number \d+"
    r"|\[SSL: \w+\] [\w ]*alert[\w ]* \(_ssl\.c:\d+\)"
    r"|remote error: tls: [\w ]+|Received fatal alert: \w+"
)


def without_alerts(text: str) -> str:
    """A client's error without the name of the TLS alert that the broker has sent it.

    A broker's TLS library chooses among alerts by itself. OpenSSL says what is wrong with a
    client's certificate; Java says `certificate unknown` or `bad certificate`. No client does
    anything with an alert but show it.
    """
    return _ALERTS.sub("ALERT", text)


def comparable(text: str) -> str:
    """A client's error without what is another one in each run: ports, times, and how often."""
    for pattern, instead in _OF_THIS_RUN:
        text = pattern.sub(instead, text)
    said, *logged = dict.fromkeys(text.split("\nlogged: "))
    return "\nlogged: ".join([said, *sorted(logged)])
