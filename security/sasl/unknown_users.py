"""Credentials for users that there are not, which look like those of the users that there are.

A server of SCRAM answers a name with a salt and a count of iterations, before anybody has proven
anything. A client must not see from them whether the name is a user's. So a credential that is made
up has the iterations and the kind of salt of some user's: each form is as frequent among those that
are made up as among the real ones, and a name keeps its form and its salt while others come and go.
The secret that decides it is the same on all brokers.
"""

import hashlib
import hmac
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ...clients.sasl.scram_keys import (
    CREDENTIAL_ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    random_text,
)

FORMS_MAX = 16
"""Rarer forms are not imitated: each costs every login a hash."""

CREDENTIALS_READ_MAX = 10_000
"""Of more credentials only so many are looked at, each time that one of them has changed."""

_TEXT = 0
_TEXT_BYTES = range(20, 27)
_DIGITS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz")


class CredentialForm(NamedTuple):
    """What a client sees of a credential: its iterations and the kind of its salt."""

    iterations: int
    salt_bytes: int
    """How many bytes of any value; 0 for a number as text, which Kafka's tools make of salts."""


WeightedForms = Sequence[tuple[CredentialForm, int]]
"""Forms, each with how many credentials have it."""

FormsOf = Callable[[ScramMechanism], WeightedForms]
"""The forms of a mechanism's credentials, the most frequent first."""

USUAL_FORMS: WeightedForms = ((CredentialForm(CREDENTIAL_ITERATIONS_MIN, _TEXT), 1),)
"""While a mechanism has no users."""


def form_of(credential: ScramCredential) -> CredentialForm:
    """What a client sees of a credential."""
    salt = credential.salt
    is_text = len(salt) in _TEXT_BYTES and _DIGITS.issuperset(salt)
    return CredentialForm(credential.iterations, _TEXT if is_text else len(salt))


def weighted_forms(credentials: Iterable[ScramCredential]) -> WeightedForms:
    """The most frequent forms of some credentials; the usual one if there are none."""
    counts = Counter(map(form_of, islice(credentials, CREDENTIALS_READ_MAX)))
    return counts.most_common(FORMS_MAX) or USUAL_FORMS


def usual_forms(_: ScramMechanism) -> WeightedForms:
    """For a mechanism whose users nobody counts."""
    return USUAL_FORMS


class FormsOfUsers:
    """The forms of the users in an image, counted again when they have changed."""

    def __init__(self, users: Callable[[], Mapping[tuple[str, int], ScramCredential]]) -> None:
        """`users` returns another mapping as soon as one of them has changed."""
        self._users = users
        self._counted: Mapping[tuple[str, int], ScramCredential] | None = None
        self._forms: dict[int, WeightedForms] = {}

    def __call__(self, mechanism: ScramMechanism) -> WeightedForms:
        """The forms of a mechanism's credentials."""
        users = self._users()
        if users is not self._counted:
            self._counted, self._forms = users, {}
        forms = self._forms.get(mechanism.code)
        if forms is None:
            own = (credential for (_, code), credential in users.items() if code == mechanism.code)
            forms = self._forms[mechanism.code] = weighted_forms(own)
        return forms


def stand_in_credential(
    mechanism: ScramMechanism, user: str, secret: bytes, forms: WeightedForms
) -> ScramCredential:
    """The credential of a user that there is not. Its keys are zeros, which prove nothing."""
    seed = f"{mechanism.name}\0{user}".encode()
    iterations, salt_bytes = _choose_form(seed, secret, forms)
    salt = hmac.digest(secret, seed, "sha256")
    salt = hashlib.shake_256(salt).digest(salt_bytes) if salt_bytes else random_text(salt)
    no_key = bytes(mechanism.key_bytes)
    return ScramCredential(salt, no_key, no_key, iterations)


def _choose_form(seed: bytes, secret: bytes, forms: WeightedForms) -> CredentialForm:
    """The form of a name: rendezvous hashing, so that others' users hardly ever change it."""
    if len(forms) == 1:
        return forms[0][0]

    def score(weighted: tuple[CredentialForm, int]) -> float:
        form, count = weighted
        chance = hmac.digest(secret, b"%b\0%d\0%d" % (seed, *form), "sha256")
        uniform = (int.from_bytes(chance[:6], "big") + 1) / (1 << 48)
        return math.log(uniform) / count

    return max(forms, key=score)[0]
