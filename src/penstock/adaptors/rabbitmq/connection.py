# SPDX-License-Identifier: Apache-2.0
"""Connections to RabbitMQ: an address, options passed through to pika, and failures explained."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.errors import AdaptorError, ConfigurationError

if TYPE_CHECKING:
    from pika import BlockingConnection, URLParameters
    from pika.adapters.blocking_connection import BlockingChannel

_EXAMPLE_URL = "amqp://user:password@host:5672/"
_NOT_FOUND, _ACCESS_REFUSED, _IN_USE, _PRECONDITION = 404, 403, 405, 406
NOT_AMQP = "not AMQP 0-9-1"
"""Begins what is said of bytes that are no frame."""
_MISSING_OBJECT = re.compile(r"no (queue|exchange) '([^']*)'")


class RabbitMQConnection:
    """The address of a RabbitMQ server and how to log in. It holds no open connection; `open` returns one.

    Parameters
    ----------
    url
        ``amqp://user:password@host:port/virtual-host``, or ``amqps://`` for TLS. The virtual host ``/`` may be left
        out.
    options
        Other options that pika accepts in an address: ``heartbeat``, ``socket_timeout``, ``connection_attempts``,
        ``retry_delay``, ``blocked_connection_timeout``, ``ssl_options`` (a mapping: ``ca_certs``, ``certfile``,
        ``keyfile``) and so on. They override those in the address.

    Raises
    ------
    ConfigurationError
        The address or an option cannot be read.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ConfigurationError(
                f"rabbitmq url: cannot read {_without_password(url)!r}; write it like {_EXAMPLE_URL}", field="url"
            )
        try:
            given_port = parts.port
        except ValueError:  # its own words may hold a part of the password
            raise ConfigurationError(
                f"rabbitmq url: its port is not a number; write it like {_EXAMPLE_URL}, and in the password %2F for /",
                field="url",
            ) from None
        given = dict(parse_qsl(parts.query, keep_blank_values=True)) | {
            key: str(value) for key, value in (options or {}).items()
        }
        # Do not wait for ever: pika's own defaults wait for minutes.
        query = urlencode({"socket_timeout": "10", "stack_timeout": "15"} | given)
        path = parts.path if len(parts.path) > 1 else "/%2F"
        user = quote(unquote(parts.username or "guest"), safe="")
        password = quote(unquote(parts.password or ("guest" if parts.username is None else "")), safe="")
        port = given_port or (5671 if parts.scheme == "amqps" else 5672)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._url = f"{parts.scheme}://{user}:{password}@{host}:{port}{path}?{query}"
        self.user = unquote(user)
        self.address = f"{parts.scheme}://{host}:{port}"
        """The address without user and password, for messages."""
        self.parameters()  # raises now if an option is wrong

    def parameters(self) -> URLParameters:
        """Return pika's connection parameters."""
        import pika

        try:
            return pika.URLParameters(self._url)
        except (ValueError, TypeError) as fault:
            raise ConfigurationError(f"rabbitmq url or options: {fault}", field="url") from fault

    def open(self) -> BlockingConnection:
        """Connect.

        Raises
        ------
        AdaptorError
            Unreachable (`retryable`), or the user, the password or the virtual host is wrong.
        """
        import pika

        from penstock.adaptors.rabbitmq.tolerant_frames import TolerantConnection

        with self.explained():
            # The argument has no public name: in place of this class, a header that pika cannot read would end each
            # connection on which its message is delivered.
            return pika.BlockingConnection(self.parameters(), _impl_class=TolerantConnection)

    def check(self) -> None:
        """Connect once and disconnect. Raises as `open` does."""
        self.open().close()

    def check_queue(self, queue: str) -> int:
        """Return how many messages wait in a queue.

        Raises
        ------
        AdaptorError
            As `open` does, or if the queue does not exist.
        """
        connection = self.open()
        try:
            with self.explained():
                return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
        finally:
            close_quietly(connection)

    def consuming(
        self, consume: Callable[[BlockingConnection], BlockingChannel]
    ) -> tuple[BlockingConnection, BlockingChannel]:
        """Connect and start consuming. If that fails, nothing is left open."""
        link = self.open()
        try:
            with self.explained():
                return link, consume(link)
        except BaseException:
            close_quietly(link)
            raise

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn pika's exceptions into AdaptorErrors that say what to do."""
        from pika import exceptions

        try:
            yield
        except (exceptions.ProbableAuthenticationError, exceptions.AuthenticationError) as fault:
            raise self._error(
                f"refuses user {self.user!r}: wrong user or password, or the user may not come from this host"
            ) from fault
        except exceptions.ProbableAccessDeniedError as fault:
            raise self._error(f"does not let user {self.user!r} into this virtual host ({_text(fault)})") from fault
        except exceptions.ConnectionClosedByBroker as fault:
            if fault.reply_code in (_ACCESS_REFUSED, 530):
                raise self._error(f"refuses user {self.user!r}: {fault.reply_text}") from fault
            raise self._error(f"closed the connection: {fault.reply_text}", retryable=True) from fault
        except exceptions.ChannelClosedByBroker as fault:
            # A batch took longer than the broker waits for acknowledgements: it delivers again after a reconnect.
            is_late = "timed out" in fault.reply_text
            raise self._error(_channel_words(fault.reply_code, fault.reply_text), retryable=is_late) from fault
        except (exceptions.AMQPError, OSError) as fault:
            text = _text(fault)
            words = f"cannot be reached ({text}); is it running, and is the address right?"
            if NOT_AMQP in text:
                words = f"sends what cannot be read ({text}); is it RabbitMQ, and is nothing between that changes it?"
            raise self._error(words, retryable=True) from fault

    def _error(self, words: str, *, retryable: bool = False) -> AdaptorError:
        return AdaptorError(f"RabbitMQ at {self.address} {words}", target="RabbitMQ", retryable=retryable)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r}, user={self.user!r})"


def close_quietly(connection: BlockingConnection | BlockingChannel) -> None:
    """Close a connection that may be closed or broken already."""
    from pika import exceptions

    with contextlib.suppress(exceptions.AMQPError, OSError):
        connection.close()


def _channel_words(code: int, text: str) -> str:
    found = _MISSING_OBJECT.search(text)
    if code == _NOT_FOUND and found:
        kind, name = found.groups()
        return f"has no {kind} {name!r}; create it first (penstock.adaptors.rabbitmq.fanout.declare creates both)"
    if code == _ACCESS_REFUSED:
        return f"denies this: {text}"
    if code == _IN_USE:
        return f"says that another client uses it exclusively: {text}"
    if code == _PRECONDITION:
        return f"has it with other properties: {text}"
    return f"closed the channel: {text}"


def _text(fault: BaseException) -> str:
    # pika wraps the socket's error several times. The innermost explains it best.
    for inner in (*getattr(fault, "exceptions", ()), *fault.args):
        nested = getattr(inner, "exception", inner)
        if isinstance(nested, BaseException):
            return _text(nested)
    return str(fault) or type(fault).__name__


def _without_password(url: str) -> str:
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)
