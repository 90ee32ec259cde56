"""HTTP to a server: one URL, one token, and connections that stay open."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import random
import select
import socket
import ssl
import threading
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from .errors import ApiError, Error, ServerAway

DEFAULT_SERVER = "http://127.0.0.1:7295"
CONNECT_TIMEOUT = 10.0
MAX_ANSWER = 64 << 20


class Server:
    """Where a server is, and how its requests are signed.

    url defaults to PAWL_SERVER, then to that of a server on this machine; token to PAWL_TOKEN. ca is a file with the
    certificates, in PEM, that the server's is signed by; without it those of the system count.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, ca: Optional[str] = None) -> None:
        self.url = parse(url or os.environ.get("PAWL_SERVER") or DEFAULT_SERVER)
        self.token = token if token is not None else os.environ.get("PAWL_TOKEN", "")
        if any(not "!" <= c <= "~" for c in self.token):
            raise ValueError('the token: want visible ASCII characters, as "pawl token create" prints them')
        self.tls: Optional[ssl.SSLContext] = None
        if self.url.startswith("https:"):
            self.tls = ssl.create_default_context(cafile=ca)
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def connection(self) -> "Connection":
        return Connection(self)


def parse(url: str) -> str:
    """Return scheme and host of a URL of a server. http is for the loopback interface only."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        raise ValueError("server %r: %s" % (url, e)) from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("server %r: want https://HOST, or http://ADDRESS of the loopback interface" % url)
    if parts.username or parts.password or parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("server %r: want it without user, path and query" % url)
    if parts.scheme == "http" and not loopback(host):
        raise ValueError("server %r: http is for the loopback interface only: want https://%s" % (url, parts.netloc))
    return "%s://%s" % (parts.scheme, parts.netloc)


def loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Connection:
    """One connection to a server, opened when it is needed, and again after an error.

    One thread at a time sends requests. Any other may cut it off.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()  # guards _http
        self._http: Optional[http.client.HTTPConnection] = None

    def call(self, method: str, path: str, body: Any = None, timeout: float = 15.0, raw: Optional[bytes] = None,
             headers: Optional[Dict[str, str]] = None) -> Any:
        """Send a request, once, and return the JSON of its answer.

        Raises ApiError for a status that is not 2xx, and ServerAway if there is no answer.
        """
        sent = {"User-Agent": "pawl-python", "Accept": "application/json"}
        if self._server.token:
            sent["Authorization"] = "Bearer " + self._server.token
        data = raw
        if raw is not None:
            sent["Content-Type"] = "application/octet-stream"
        elif body is not None:
            sent["Content-Type"] = "application/json"
            data = encode(body)
        sent.update(headers or {})
        return self._exchange(method, path, data, sent, timeout)

    def _exchange(self, method: str, path: str, data: Optional[bytes], headers: Dict[str, str], timeout: float) -> Any:
        try:
            link = self._open()
            assert link.sock is not None
            link.sock.settimeout(timeout)
            link.request(method, path, data, headers)
            answer = link.getresponse()
            text = answer.read(MAX_ANSWER + 1)
        except ssl.SSLCertVerificationError as e:
            self.close()
            raise Error("the certificate of %s is not trusted: %s" % (self._server.url, e.verify_message)) from e
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise ServerAway("the server at %s is out of reach: %s" % (self._server.url, e or type(e).__name__)) from e
        if answer.will_close or len(text) > MAX_ANSWER:
            self.close()
        return result(answer, text)

    def _open(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._http is not None and not hung_up(self._http.sock):
                return self._http
            if self._http is not None:
                self._http.close()
            parts = urlsplit(self._server.url)
            made: http.client.HTTPConnection
            if self._server.tls is not None:
                made = http.client.HTTPSConnection(parts.netloc, timeout=CONNECT_TIMEOUT, context=self._server.tls)
            else:
                made = http.client.HTTPConnection(parts.netloc, timeout=CONNECT_TIMEOUT)
            self._http = made
        made.connect()
        assert made.sock is not None
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def cut(self) -> None:
        """End the request under way: its call raises ServerAway."""
        with self._lock:
            sock = self._http.sock if self._http is not None else None
            if sock is not None:
                try:
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended

    def close(self) -> None:
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None


def hung_up(sock: Optional[socket.socket]) -> bool:
    """Report whether the other end has closed a connection that is not in use."""
    if sock is None:
        return True
    try:
        poller = select.poll()
        poller.register(sock, select.POLLIN)
        return bool(poller.poll(0))
    except AttributeError:  # a system without poll
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def encode(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def result(answer: http.client.HTTPResponse, text: bytes) -> Any:
    """Return the JSON of an answer, or raise its problem."""
    status = answer.status
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
        if 200 <= status < 300:
            raise ApiError(502, {"detail": "the answer is not JSON: is it a Pawl server?"}) from None
    if 200 <= status < 300:
        return value
    media = (answer.getheader("Content-Type") or "").split(";")[0]
    if media != "application/problem+json" or not isinstance(value, dict):
        value = {"detail": "HTTP status %d, and not as a Pawl server answers" % status}
    after = answer.getheader("Retry-After") or ""
    raise ApiError(status, value, float(after) if after.isdigit() else 0.0)


class Backoff:
    """Pauses that grow from first to most seconds, each a random one of the upper half."""

    def __init__(self, first: float = 0.2, most: float = 5.0) -> None:
        self._first, self._most = first, most
        self._next = first

    @property
    def calm(self) -> bool:
        """Whether there was no pause since the last reset."""
        return self._next == self._first

    def reset(self) -> None:
        self._next = self._first

    def pause(self) -> float:
        now = self._next
        self._next = min(2 * now, self._most)
        return now * random.uniform(0.5, 1.0)
