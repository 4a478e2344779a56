"""Passwords of connections: never printed, never written."""

import re
from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "***"
SHORTEST = 3  # characters; shorter values occur in other words
_secrets: set[str] = set()
"""What messages of engines must not show: the secrets of this process's connections."""


def keep_secret(url: str) -> None:
    """Keep the password of a URL, its user and the values of its parameters out of messages."""
    _secrets.add(url)
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    values = [login, *login.split(":", 1), *(value for _, value in parse_qsl(parts.query))]
    values += [setting.partition("=")[2] for setting in parts.query.split("&")]
    _secrets.update(each for value in values for each in (value, unquote(value)))


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
