"""TLS for connections that we open: contexts made of PEM files, and plain words for failures.

The broker's certificate is always checked, its host name too unless that is turned off by Kafka's
`ssl.endpoint.identification.algorithm`; nothing falls back to plain text.
"""

import ssl
from dataclasses import dataclass

from ..errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files of a client that speaks TLS; empty paths stand for what the system has."""

    trusted: str = ""
    """A PEM file with the certificates that vouch for brokers."""
    certificate: str = ""
    """A PEM file with the client's own certificate, and its key unless that has its own file."""
    key: str = ""
    """A PEM file with the client's private key."""
    key_password: str = ""
    checks_host: bool = True
    """Whether a broker's certificate must be for the host that was connected to."""

    def __repr__(self) -> str:
        return f"ClientTls({self.trusted!r}, {self.certificate!r}, {self.key!r})"


_OTHER_HOST = (62, 63, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, EMAIL_MISMATCH and IP_ADDRESS_MISMATCH."""
_OTHER_TIME = (9, 10)
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and CERT_HAS_EXPIRED."""
_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA")


def trusting_context(path: str = "", text: str = "") -> ssl.SSLContext:
    """A client's context that trusts the certificates in a PEM file and in a text.

    Without either, it trusts what the system does. Raises OSError, ssl.SSLError and ValueError.
    """
    context = ssl.create_default_context(cafile=path or None, cadata=text or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Each certificate in the file is trusted, whatever its issuer, as in Java.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """The context for such connections. Raises KafkaError(INVALID_CONFIG) with one message."""
    path = tls.trusted
    try:
        context = trusting_context(tls.trusted)
        context.check_hostname = tls.checks_host
        if tls.certificate:
            path = tls.certificate
            # Without a function OpenSSL would ask at the terminal.
            context.load_cert_chain(
                tls.certificate, tls.key or None, password=lambda: tls.key_password
            )
    except ssl.SSLError as error:
        raise _refusal(f"{path} cannot be used for TLS: {tls_reason(error)}.") from None
    except OSError as error:
        raise _refusal(f"{path} cannot be read: {error.strerror or error}.") from None
    return context


def tls_reason(error: ssl.SSLError) -> str:
    """Why TLS failed, in OpenSSL's words without its decoration."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted ({error.verify_message.rstrip('.')})"
    return f"TLS failed: {(error.reason or 'protocol error').replace('_', ' ').lower()}"


def tls_advice(error: ssl.SSLError) -> str:
    """What the user of a client can do about a failure of TLS; "" if it is not about certificates.

    Without the full stop.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_HOST:
            return "Connect by a name or address that the certificate has"
        if error.verify_code in _OTHER_TIME:
            return "Give the broker a new certificate, or set the clock of this machine"
        return "Name the authority that signed it with ssl.ca.location"
    reason = error.reason or ""
    if reason.endswith("ALERT_CERTIFICATE_REQUIRED"):
        return "Show one with ssl.certificate.location"
    if "_ALERT_" in reason and any(word in reason for word in _CERTIFICATE_ALERTS):
        return "Show a certificate that the broker trusts with ssl.certificate.location"
    return ""


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
