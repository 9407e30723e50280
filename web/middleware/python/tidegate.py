"""Applies the decisions of Tidegate's authorizer in WSGI, ASGI and Lambda handlers.

Copy this file; it needs Python 3.10 and no package. docs/backends.md describes its use.
It equals the Go package web/middleware, and both pass the same table of cases.

The backend must be reachable only through API Gateway, since direct clients could claim
any decision. A request without a decision gets 500 and never reaches an application.
"""

import contextlib
import dataclasses
import email.utils
import functools
import http.client
import json
import logging
import random
import re
import socket
import threading
import time
import urllib.parse
from http import HTTPStatus

# KEYS maps the keys of the context to the fields of Call.
KEYS = {
    "denied": "denied", "keyId": "key_id", "keyName": "key_name", "plan": "plan", "route": "route",
    "policyVersion": "policy_version", "keyVersion": "key_version", "limit": "limit",
    "remaining": "remaining", "reset": "reset", "rateLimit": "rate_limit",
    "rateLimitPolicy": "rate_limit_policy", "retryAfter": "retry_after", "wait": "wait",
    "message": "message", "problemType": "problem_type", "violatedPolicies": "violated_policies",
    "reference": "reference", "reservation": "reservation", "shadowDenied": "shadow_denied", "degraded": "degraded",
}


def web_adapter(request):
    """The source behind the AWS Lambda Web Adapter.

    It passes API Gateway's request context as JSON in the header X-Amzn-Request-Context,
    which it overwrites. Behind anything else a client could send that header.
    """
    values = _values(request, "X-Amzn-Request-Context")
    return _authorizer(json.loads(values[0])["authorizer"]) if len(values) == 1 else None


def of_event(find):
    """Returns the source behind an adapter that keeps the event.

    find returns the event of a request, from what the adapter wrote and never from a
    header: lambda scope: scope["aws.event"] behind Mangum.
    """
    return lambda request: _authorizer(find(request)["requestContext"]["authorizer"])


def headers(prefix, *mapped):
    """Returns a source that reads the mapped keys of the context, each from its header.

    The prefix stands before each name. API Gateway's parameter mapping must overwrite
    each of them, and have denied among them. Any other header with the prefix comes from
    the client and is not read.
    """
    def source(request):
        context = {}
        for key in mapped:
            values = _values(request, prefix + key)
            if len(values) > 1:
                return None
            if values and values[0]:
                context[key] = values[0]
        return context
    return source


def _authorizer(value):
    """Returns the context within requestContext.authorizer of an event.

    HTTP APIs with payload format 2.0 have it under lambda, all others directly.
    """
    if isinstance(value, dict) and isinstance(value.get("lambda"), dict):
        return value["lambda"]
    return value


def _values(request, name):
    """Returns every value of a header of a WSGI environment or an ASGI scope."""
    if "wsgi.version" in request:
        value = request.get("HTTP_" + name.upper().replace("-", "_"))
        return [] if value is None else [_utf8(value.encode("latin-1"))]
    name = name.lower().encode("latin-1")
    return [_utf8(value) for key, value in request["headers"] if key.lower() == name]


def _utf8(value):
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


class NoDecision(ValueError):
    """The authorizer context is missing or invalid."""


@dataclasses.dataclass(frozen=True)
class Call:
    """The decision on a request; docs/backends.md describes each field."""

    denied: bool
    key_id: str
    key_name: str
    plan: str
    route: str
    policy_version: int
    key_version: int
    limit: int  # of the binding limit
    remaining: int
    reset: int  # seconds
    rate_limit: str
    rate_limit_policy: str
    retry_after: int  # seconds, at most a day
    wait: str  # exact seconds until a retry passes, or never
    message: str
    problem_type: str
    violated_policies: tuple
    reference: str  # by which an operator finds the denial
    reservation: str = dataclasses.field(repr=False)
    shadow_denied: bool
    degraded: bool
    _settler: "Settler | None" = dataclasses.field(default=None, repr=False, compare=False)

    def settle(self, cost):
        """Charges the actual cost of the request, and returns the Settlement.

        The cost is a number, or a dict of a number for each unit. settle refunds the
        unused part of the reservation, and charges any cost above it. Without a
        reservation it does nothing. It blocks: async code calls it by asyncio.to_thread.
        """
        if not self.reservation:
            return Settlement()
        if self._settler is None:
            raise NoSettler("tidegate: no settler")
        return self._settler.settle(self.reservation, cost)


def _parse(context, settler):
    if not isinstance(context, dict):
        raise NoDecision("the request has no authorizer context")
    fields = {}
    for key, name in KEYS.items():
        text, kind = _text(context.get(key)), Call.__annotations__[name]
        if name == "denied" and text not in ("true", "false"):
            raise NoDecision("denied is neither true nor false in the authorizer context")
        if kind is bool:
            fields[name] = text == "true"
        elif kind is int:
            fields[name] = int(text) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else 0
        elif kind is tuple:
            fields[name] = _list(text)
        else:
            fields[name] = text
    return Call(**fields, _settler=settler)


def _text(value):
    """Converts a value to a string, as REST APIs do with every value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else ""


def _list(text):
    items = json.loads(text) if text else []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise NoDecision("violatedPolicies is not an array of strings")
    return tuple(items)


class Limits:
    """Passes admitted calls to applications.

    source        finds the context of a request; Lambda handlers need none
    settler       a Settler, for settle; optional
    allow_origins origins whose scripts may read a 429; None: any, an empty list: none
    log           a logging.Logger, which gets a line for each request without a decision
    """

    def __init__(self, source=None, settler=None, allow_origins=None, log=None):
        self._source = source or (lambda request: None)
        self._settler = settler
        self._origins = allow_origins
        self._log = log or logging.getLogger("tidegate")

    def wsgi(self, app):
        """Wraps a WSGI application, which finds the decision in environ["tidegate"]."""
        def wrapped(environ, start_response):
            call, fields, refusal = self._admit(self._source, environ, environ.get("HTTP_ORIGIN"))
            if refusal:
                status, fields, body = refusal
                start_response(f"{status} {HTTPStatus(status).phrase}", fields)
                return [body.encode()]
            environ["tidegate"] = call

            def start(status, headers, exc_info=None):
                return start_response(status, headers + _missing(fields, dict(headers)), exc_info)
            return app(environ, start)
        return wrapped

    def asgi(self, app):
        """Wraps an ASGI application, which finds the decision in scope["tidegate"].

        It refuses WebSocket connections, which API Gateway never opens to a backend.
        """
        async def wrapped(scope, receive, send):
            if scope["type"] == "lifespan":
                return await app(scope, receive, send)
            if scope["type"] != "http":
                return await send({"type": "websocket.close", "code": 1008})
            origin = next(iter(_values(scope, "origin")), None)
            call, fields, refusal = self._admit(self._source, scope, origin)
            if refusal:
                status, fields, body = refusal
                await send({"type": "http.response.start", "status": status, "headers": _encoded(fields)})
                return await send({"type": "http.response.body", "body": body.encode()})

            async def sending(message):
                if message["type"] == "http.response.start":
                    sent = list(message.get("headers", []))
                    names = [name.decode("latin-1") for name, _ in sent]
                    message = {**message, "headers": sent + _encoded(_missing(fields, names))}
                await send(message)
            return await app({**scope, "tidegate": call}, receive, sending)
        return wrapped

    def lambda_handler(self, handler):
        """Wraps a handler of API Gateway's events: handler(event, context, call)."""
        @functools.wraps(handler)
        def wrapped(event, context):
            sent = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
            call, fields, refusal = self._admit(of_event(lambda e: e), event, sent.get("origin"))
            if refusal:
                status, fields, body = refusal
                return {"statusCode": status, "headers": dict(fields), "body": body}
            return _with_fields(handler(event, context, call), fields, event)
        return wrapped

    def _admit(self, source, request, origin):
        """Returns the admitted call and its fields, or the response that refuses it."""
        try:
            call = _parse(source(request), self._settler)
        except Exception:  # any error refuses the call
            self._log.exception("authorizer decision missing, request refused")
            return None, [], _problem(500, detail="The authorizer's decision is missing.")
        fields = [("RateLimit", call.rate_limit), ("RateLimit-Policy", call.rate_limit_policy)]
        fields = [(name, value) for name, value in fields if value]
        if not call.denied:
            return call, fields, None
        if call.retry_after > 0:  # a call that can never pass gets none
            fields.append(("Retry-After", str(call.retry_after)))
        fields += self._exposed(origin)
        return None, [], _problem(429, call.problem_type, call.message, call.violated_policies, call.wait,
                                  call.reference, fields)

    def _exposed(self, origin):
        """Returns the fields that let scripts of an origin read a response."""
        if self._origins is None:
            fields, allowed = [], "*"
        else:
            fields, allowed = [("Vary", "Origin")] if self._origins else [], origin
            if origin not in self._origins:
                return fields
            fields.append(("Access-Control-Allow-Credentials", "true"))
        return fields + [
            ("Access-Control-Allow-Origin", allowed),
            ("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy"),
        ]


def _missing(fields, names):
    """Returns the fields that a response with these names does not set itself."""
    names = {name.lower() for name in names}
    return [(name, value) for name, value in fields if name.lower() not in names]


def _encoded(fields):
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def _problem(status, kind="", detail="", violated=(), wait="", reference="", fields=()):
    """Returns status, fields and body of a response in the form of RFC 9457.

    Clients made for API Gateway read message, not detail.
    """
    title = HTTPStatus(status).phrase
    body = {"type": kind or "about:blank", "title": title, "status": status, "detail": detail,
            "message": detail}
    if violated:
        body["violated-policies"] = violated
    if wait:
        body["retry-after"] = wait
    if reference:
        body["reference"] = reference
    own = [("Content-Type", "application/problem+json"), ("Cache-Control", "no-store")]
    return status, own + list(fields), json.dumps(body) + "\n"


def _with_fields(answer, fields, event):
    """Adds the fields that a handler's response does not set itself.

    Payload format 2.0 treats a response without statusCode as the body of a 200.
    """
    if answer is None:
        return None
    if event.get("version") == "2.0" and not (isinstance(answer, dict) and "statusCode" in answer):
        body = answer if isinstance(answer, str) else json.dumps(answer)
        answer = {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": body}
    own = {**(answer.get("headers") or {}), **(answer.get("multiValueHeaders") or {})}
    added = dict(_missing(fields, own))
    return {**answer, "headers": {**(answer.get("headers") or {}), **added}}


@dataclasses.dataclass(frozen=True)
class Settlement:
    """The result of settling a reservation."""

    reserved: int | dict = 0  # taken before the call; a dict of a number for each unit
    actual: int | dict = 0  # actually used
    owed: int = 0  # what a limit counts above its number; it denies until it has drained
    partial: bool = False  # a part of the refund is still counted


class NoSettler(RuntimeError):
    """Limits has no Settler."""


class SettleError(Exception):
    """A refused settlement, with the status and detail of the response."""

    def __init__(self, status, detail, retry_after=0):
        super().__init__(f"tidegate: settle: {status}: {detail}")
        self.status, self.detail = status, detail
        self.retry_after = retry_after  # seconds

    @property
    def temporary(self):
        """Reports whether another attempt may succeed."""
        return self.status == 429 or self.status >= 500


class NoConnection(OSError):
    """An attempt that never reached a server."""


# Bounds of one settlement with its retries, in seconds.
SETTLE_TIMEOUT = 5  # of one attempt
SETTLE_DEADLINE = 15  # of all attempts and the pauses between them
SETTLE_ATTEMPTS = 5
SETTLE_PAUSE = 0.2  # before the second attempt; doubled before each one after it
MAX_RETRY_AFTER = 5  # a longer Retry-After is shortened to it
MAX_ANSWER = 1 << 16  # bytes


class Settler:
    """Settles reservations over Tidegate's JSON API. It is safe for concurrent use.

    url is the dashboard's address, token a machine token of scope settle.
    """

    def __init__(self, url, token):
        self._url = url.removesuffix("/") + "/api/v1/reservations/settle"
        self._token = token

    def settle(self, reservation, cost):
        """Settles a reservation by its text.

        It retries after a connection error, a 429 or a 5xx, with random pauses. Retries
        are safe, since a reservation settles once. A 409 is success if an earlier attempt
        of this call may have settled; only the cost of that settlement is known.
        """
        end = time.monotonic() + SETTLE_DEADLINE
        may_be_settled = False
        for attempt in range(1, SETTLE_ATTEMPTS + 1):
            try:
                return self._try(reservation, cost, min(SETTLE_TIMEOUT, end - time.monotonic()))
            except SettleError as refused:
                if refused.status == 409 and may_be_settled:
                    return Settlement(actual=cost)
                if not refused.temporary or attempt == SETTLE_ATTEMPTS:
                    raise
                failure = refused
            except (OSError, http.client.HTTPException, ValueError) as broken:
                if attempt == SETTLE_ATTEMPTS:
                    raise
                failure = broken
            may_be_settled = may_be_settled or _arrived(failure)
            pause = _pause_before(attempt + 1, failure)
            if time.monotonic() + pause > end:
                raise failure
            time.sleep(pause)

    def _try(self, reservation, cost, timeout):
        body = json.dumps({"reservation": reservation, "cost": cost}).encode()
        fields = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        status, answered, text = _post(self._url, fields, body, timeout)
        if status != 200:
            raise SettleError(status, _detail(text), _retry_after(answered.get("Retry-After")))
        settled = json.loads(text)
        return Settlement(
            settled.get("reserved", 0), settled.get("actual", 0), settled.get("owed", 0),
            settled.get("partial", False))


def _post(url, fields, body, timeout):
    """Returns status, fields and body of a response within timeout seconds."""
    to = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if to.scheme == "https" else http.client.HTTPConnection
    connection = kind(to.netloc, timeout=timeout)
    end = time.monotonic() + timeout
    with contextlib.closing(connection):
        try:
            connection.connect()
        except OSError as cause:
            raise NoConnection(f"tidegate: settle: connect: {cause}") from cause
        # A socket's timeout applies to each read, so a timer ends the whole attempt.
        timer = threading.Timer(max(end - time.monotonic(), 0), _shut, [connection.sock])
        timer.daemon = True
        timer.start()
        try:
            connection.request("POST", to.path, body, fields)
            response = connection.getresponse()
            return response.status, response.headers, response.read(MAX_ANSWER)
        finally:
            timer.cancel()


def _shut(sock):
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _arrived(failure):
    """Reports whether a failed attempt may have settled: connected and not throttled."""
    if isinstance(failure, SettleError):
        return failure.status != 429
    return not isinstance(failure, NoConnection)


def _pause_before(attempt, failure):
    """Returns the seconds to wait before an attempt, from the second on.

    They are 50 to 100 % of a pause that doubles, plus the response's Retry-After of at
    most MAX_RETRY_AFTER.
    """
    pause = SETTLE_PAUSE * 2 ** (attempt - 2)
    return random.uniform(pause / 2, pause) + min(getattr(failure, "retry_after", 0), MAX_RETRY_AFTER)


def _detail(text):
    """Returns the detail of a problem; "" for any other response."""
    try:
        return json.loads(text).get("detail", "")
    except (ValueError, AttributeError):
        return ""


def _retry_after(value):
    """Parses Retry-After in both of its forms; 0 for none."""
    if value is None:
        return 0
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0)
    except ValueError:
        return 0
