"""Cipher suites: Java's names, which `ssl.cipher.suites` holds, and OpenSSL's."""

TLS_1_3 = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The suites of TLS 1.3. Python's `ssl` cannot choose among them."""

_EXCHANGES = {
    "TLS_ECDHE_ECDSA_WITH_": "ECDHE-ECDSA-",
    "TLS_ECDHE_RSA_WITH_": "ECDHE-RSA-",
    "TLS_DHE_RSA_WITH_": "DHE-RSA-",
    "TLS_RSA_WITH_": "",
}
_CIPHERS = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}


def openssl_name(java_name: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2 that encrypts; None for any other name."""
    for prefix, exchange in _EXCHANGES.items():
        if java_name.startswith(prefix):
            cipher = _CIPHERS.get(java_name.removeprefix(prefix))
            return None if cipher is None else exchange + cipher
    return None
