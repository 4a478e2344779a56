"""Passwords of connections: never printed, never written."""

import re
from urllib.parse import unquote_plus, urlsplit

HIDDEN = "***"
SECRET = re.compile("pass|pwd|secret|token|key|auth|credential|private|sig", re.IGNORECASE)
"""Names of parameters whose values are secrets."""

SHORTEST = 3  # characters; shorter values occur in other words
_secrets: set[str] = set()
"""What messages of engines must not show: the secrets of this process's connections."""


def keep_secret(url: str) -> None:
    """Keep a URL, its password and the secrets among its parameters out of messages.

    A user without a password may be a token, and is kept secret, too.
    """
    parts = urlsplit(url)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    settings = (setting.partition("=") for setting in parts.query.split("&"))
    values = [password or user, *(value for key, _, value in settings if SECRET.search(key))]
    _secrets.update([url, *(each for value in values for each in (value, unquote_plus(value)))])


def hidden(text: str) -> str:
    """A text without the secrets of connections.

    >>> keep_secret("postgres://ann:pass-word@host/shop")
    >>> hidden("no access to postgres://ann:pass-word@host/shop, nor with pass-word")
    'no access to ***, nor with ***'
    """
    for secret in sorted(_secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return text
