"""Applies Tidegate's decisions in WSGI, ASGI, Flask, FastAPI and Lambda handlers.

Limits reads the decision of Tidegate's authorizer; Asking asks for one, where another
authorizer runs, or none. Copy this file; it needs Python 3.10 and no package.
docs/backends.md and docs/direct.md describe its use. It equals the Go package
web/middleware, and both pass the same tables of cases.

A backend with Limits must be reachable only through API Gateway, since direct clients
could claim any decision. A request without a decision gets 500 and never reaches an
application.
"""

import asyncio
import contextlib
import dataclasses
import email.utils
import functools
import http.client
import inspect
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
    "reference": "reference", "settlement": "settlement", "atOnce": "at_once", "shadowDenied": "shadow_denied",
    "degraded": "degraded",
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
    settlement: str = dataclasses.field(repr=False)
    at_once: bool  # the settlement ends a call of a limit at once
    shadow_denied: bool
    degraded: bool
    _settled: threading.Event = dataclasses.field(
        default_factory=threading.Event, init=False, repr=False, compare=False)
    _settler: "Settler | None" = dataclasses.field(default=None, repr=False, compare=False)

    def settle(self, cost):
        """Charges the actual cost of the request, and returns the Settlement.

        The cost is a number, or a dict of a number for each unit. settle refunds the
        unused part of what was taken, and charges any cost above it. Without a
        settlement it does nothing. It blocks: async code calls it by asyncio.to_thread.
        """
        if not self.settlement:
            return Settlement()
        if self._settler is None:
            raise NoSettler("tidegate: no settler")
        self._settled.set()
        return self._settler.settle(self.settlement, cost)


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
                return [_body(environ.get("REQUEST_METHOD"), body)]
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
                return await send({"type": "http.response.body", "body": _body(scope.get("method"), body)})

            async def sending(message):
                if message["type"] == "http.response.start":
                    sent = list(message.get("headers", []))
                    names = [name.decode("latin-1") for name, _ in sent]
                    message = {**message, "headers": sent + _encoded(_missing(fields, names))}
                await send(message)
            return await app({**scope, "tidegate": call}, receive, sending)
        return wrapped

    def lambda_handler(self, handler):
        """Wraps a handler of API Gateway's events: handler(event, context, call).

        A handler of two parameters, such as an adapter, gets no call. An event of another
        source, such as a queue, raises a TypeError, so that the source keeps it: call the
        handler itself for those.
        """
        run = _with_call(handler)

        @functools.wraps(handler)
        def wrapped(event, context):
            method = _of_lambda(event)["method"]
            sent = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
            call, fields, refusal = self._admit(of_event(lambda e: e), event, sent.get("origin"))
            if refusal:
                status, fields, body = refusal
                return {"statusCode": status, "headers": dict(fields), "body": _body(method, body).decode()}
            return _with_fields(run(event, context, call), fields, event)
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
        fields += _exposed(self._origins, origin)
        return None, [], _problem(429, call.problem_type, call.message, call.violated_policies, call.wait,
                                  call.reference, fields)


def _exposed(origins, origin):
    """Returns the fields that let scripts of an origin read a response."""
    if origins is None:
        fields, allowed = [], "*"
    else:
        fields, allowed = [("Vary", "Origin")] if origins else [], origin
        if origin not in origins:
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


def _body(method, text):
    """Returns the body of a refusal, which an answer to HEAD has not."""
    return b"" if method == "HEAD" else text.encode()


def _with_call(handler):
    """Returns a function of event, context and call for a handler of these, or of two."""
    try:
        inspect.signature(handler).bind("event", "context", "call")
    except TypeError:
        return lambda event, context, call: handler(event, context)
    except ValueError:  # a handler without a signature
        pass
    return handler


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
    """The result of settling a call."""

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
    """Settles calls over Tidegate's JSON API. It is safe for concurrent use.

    url is the dashboard's address, token a machine token of scope settle. With a door in
    place of them it settles by direct calls.
    """

    def __init__(self, url="", token="", door=None):
        url, token = url.strip(), token.strip()
        if not door and not re.fullmatch(r"https?://[!-~]+", url):
            raise ValueError("tidegate: url of Settler is not of the form https://HOST/PATH")
        if not door and not re.fullmatch(r"[!-~]+", token):
            raise ValueError("tidegate: token of Settler is empty, or has characters that no token has")
        self._url = url.removesuffix("/") + "/api/v1/settlements"
        self._token = token
        self._door = door

    def settle(self, settlement, cost):
        """settles a call by the text of its context.

        It retries after a connection error, a 429 or a 5xx, with random pauses. Retries
        are safe, since a call settles once. A 409 is success if an earlier attempt
        of this call may have settled; only the cost of that settlement is known. A cost
        that is not whole raises a ValueError at once.
        """
        _check_cost(cost)
        end = time.monotonic() + SETTLE_DEADLINE
        may_be_settled = False
        for attempt in range(1, SETTLE_ATTEMPTS + 1):
            try:
                return self._try(settlement, cost, min(SETTLE_TIMEOUT, end - time.monotonic()))
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

    def _try(self, settlement, cost, timeout):
        if self._door:
            call = {"tidegate": "settle", "settlement": settlement, "cost": cost}
            return _settlement_of(self._door("settle", call, timeout))
        body = json.dumps({"settlement": settlement, "cost": cost}).encode()
        fields = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        status, answered, text = _post(self._url, fields, body, timeout)
        if status != 200:
            raise SettleError(status, _detail(text), _retry_after(answered.get("Retry-After")))
        return _settlement_of(json.loads(text))


def _check_cost(cost):
    """Raises a ValueError unless a cost is a whole number from 0, or a dict of them."""
    for name, value in (cost.items() if isinstance(cost, dict) else [("cost", cost)]):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"tidegate: settle: {name} is {value!r:.40}: must be a whole number from 0")


def _settlement_of(settled):
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
    """Returns the detail of a problem and its errors; "" for any other response."""
    try:
        problem = json.loads(text)
        errors = [f"{error['location']} {error['message']}." for error in problem.get("errors", [])]
        return " ".join([problem.get("detail", ""), *errors])
    except (ValueError, AttributeError, KeyError, TypeError):
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


class Mistake(ValueError):
    """A mistake in a direct call, which another attempt does not mend."""


ASK_TIMEOUT = 2  # seconds, of one check


def on_machine(url):
    """Returns a door to check -listen, at a URL such as http://127.0.0.1:2773."""
    def send(kind, call, timeout):
        fields = {"Content-Type": "application/json"}
        body = json.dumps(call).encode()
        status, _, text = _post(f"{url.removesuffix('/')}/{kind}", fields, body, timeout)
        answer = json.loads(text)
        if status == 200:
            return answer
        if status == 400 and kind == "check":
            raise Mistake(answer["error"])
        raise SettleError(status, answer["error"])
    return send


def by_invoke(client, function_name):
    """Returns a door to the check function on Lambda. client is boto3.client("lambda")."""
    def send(kind, call, _timeout):
        response = client.invoke(FunctionName=function_name, Payload=json.dumps(call))
        answer = json.loads(response["Payload"].read())
        if not response.get("FunctionError"):
            return answer
        failed, text = answer.get("errorType"), answer.get("errorMessage", "")
        if failed == "Mistake" and kind == "check":
            raise Mistake(text)
        raise SettleError({"Mistake": 400, "Conflict": 409}.get(failed, 503), text)
    return send


def check(door, call):
    """Asks about a call, a dict with the members of docs/direct.md.

    It takes from the call's limits if the call is allowed, and returns the answer. It is
    not tried again, since a second attempt could take twice. It raises a Mistake, or
    another error if the door cannot be reached.
    """
    members = {name: value for name, value in call.items() if value is not None}
    try:
        json.dumps(members)
    except (TypeError, ValueError) as cause:  # such as a Decimal as cost
        raise Mistake(f"the call cannot be sent: {cause}") from cause
    answer = door("check", {"tidegate": "check", **members}, ASK_TIMEOUT)
    if not isinstance(answer, dict) or answer.get("allowed") != (answer.get("status") == 200):
        raise ValueError("tidegate: the answer is not one of the check function")
    return {"headers": {}, "body": "", "context": {}, **answer}


def server_errors(status):
    """A refund_on for requests that the backend failed to serve: 5xx."""
    return status >= 500


class Asking:
    """Asks a door about every request, where no authorizer of Tidegate has decided.

    It adds the RateLimit fields, answers 401, 403 or 429 in place of the application, and
    gives it the decision as Limits does.

    door           on_machine(url) or by_invoke(client, function_name)
    caller         function of the request, which says who calls: a dict such as {"subject":
                   …, "plan": …} or {"apiKey": …}, from what the framework has verified;
                   without either of them the request is answered 401. method, path and
                   address are the request's unless it gives them. For asgi and fastapi it
                   may be async
    refund_on      function of the status, such as server_errors, which says whether a
                   request gives back what it took
    open           lets requests pass that cannot be checked now, but never one with an
                   apiKey, which nobody has verified; otherwise they are answered 429
    challenge      the WWW-Authenticate of a 401; an MCP server names its metadata in it:
                   docs/attach.md
    allow_origins  as of Limits
    log            a logging.Logger, which gets what cannot be checked or settled
    """

    def __init__(self, door, caller, refund_on=None, open=False, allow_origins=None, log=None,
                 challenge="Bearer"):
        self._door = door
        self._challenge = challenge
        self._caller = caller
        self._refund_on = refund_on or (lambda status: False)
        self._settle = True if refund_on else None
        self._open = open
        self._origins = allow_origins
        self._log = log or logging.getLogger("tidegate")
        self._settler = Settler(door=door)

    def wsgi(self, app):
        """Wraps a WSGI application, which finds the decision in environ["tidegate"].

        The caller gets the environ. Put a middleware that sets REMOTE_ADDR around it
        behind a proxy, such as Werkzeug's ProxyFix.
        """
        def wrapped(environ, start_response):
            found = _of_wsgi(environ)
            call, answer = self._ask(lambda: self._caller(environ), found, environ.get("HTTP_ORIGIN"))
            fields = list(answer["headers"].items())
            if call is None:
                status = answer["status"]
                start_response(f"{status} {HTTPStatus(status).phrase}", fields)
                return [_body(environ["REQUEST_METHOD"], answer["body"])]
            environ["tidegate"] = call
            sent = [500]  # if the application raises

            def start(status, headers, exc_info=None):
                sent[0] = int(status.split()[0])
                return start_response(status, headers + _missing(fields, dict(headers)), exc_info)
            try:
                body = app(environ, start)
            except BaseException:
                self._end(call, 500)
                raise
            return _Closing(body, lambda: self._end(call, sent[0]))
        return wrapped

    def flask(self, app):
        """Registers itself with a Flask application: views find the decision in g.tidegate.

        The caller gets flask.request. Call it behind what registers the log-in, and set
        ProxyFix behind a proxy.
        """
        from flask import g, request

        @app.before_request
        def before():
            call, answer = self._ask(lambda: self._caller(request), _of_wsgi(request.environ),
                                     request.headers.get("Origin"))
            if call is None:
                return app.response_class(answer["body"], answer["status"], answer["headers"])
            g.tidegate, g.tidegate_fields, g.tidegate_status = call, answer["headers"], 500
            return None

        @app.after_request
        def after(response):
            if "tidegate" in g:
                g.tidegate_status = response.status_code
                for name, value in _missing(g.tidegate_fields.items(), response.headers.keys()):
                    response.headers[name] = value
            return response

        @app.teardown_request
        def teardown(error):
            call = g.pop("tidegate", None)
            if call is not None:
                self._end(call, 500 if error else g.tidegate_status)

    def asgi(self, app):
        """Wraps an ASGI application, which finds the decision in scope["tidegate"].

        The caller gets the scope: behind Starlette's AuthenticationMiddleware it has the
        user. Starlette and FastAPI add it by app.add_middleware(limits.asgi). It asks about
        the handshake of a WebSocket too.
        """
        async def wrapped(scope, receive, send):
            if scope["type"] == "lifespan":
                return await app(scope, receive, send)
            origin = next(iter(_values(scope, "origin")), None)
            call, answer = await self._ask_async(self._caller, scope, scope, origin)
            socket_ = scope["type"] == "websocket"
            if call is None and socket_:
                return await send({"type": "websocket.close", "code": 1008})
            fields = list(answer["headers"].items())
            if call is None:
                await send({"type": "http.response.start", "status": answer["status"],
                            "headers": _encoded(fields)})
                body = _body(scope["method"], answer["body"])
                return await send({"type": "http.response.body", "body": body})
            sent = [200 if socket_ else 500]

            async def sending(message):
                if message["type"] == "http.response.start":
                    sent[0], own = message["status"], list(message.get("headers", []))
                    names = [name.decode("latin-1") for name, _ in own]
                    message = {**message, "headers": own + _encoded(_missing(fields, names))}
                await send(message)
            try:
                await app({**scope, "tidegate": call}, receive, sending)
            except BaseException:
                sent[0] = 500
                raise
            finally:
                await asyncio.shield(asyncio.to_thread(self._end, call, sent[0]))
        return wrapped

    def fastapi(self, user):
        """Returns a dependency of FastAPI for a user, who is a dependency too.

        The caller gets what the dependency user returns. The dependency returns the
        decision: call: Call = Depends(limits.fastapi(current_user)). It answers 401, 403 or
        429 by an HTTPException, whose detail is the problem.
        """
        from fastapi import Depends, HTTPException, Request, Response

        async def dependency(request: Request, response: Response, who=Depends(user)):
            call, answer = await self._ask_async(self._caller, who, request.scope,
                                                 request.headers.get("origin"))
            if call is None:
                raise HTTPException(answer["status"], json.loads(answer["body"]), answer["headers"])
            for name, value in answer["headers"].items():
                response.headers[name] = value
            status = 200
            try:
                yield call
            except BaseException as failed:
                status = getattr(failed, "status_code", 500)
                raise
            finally:
                await asyncio.shield(asyncio.to_thread(self._end, call, status))
        return dependency

    def lambda_handler(self, handler):
        """Wraps a handler of events: handler(event, context, call).

        The event is of a function URL, an API, a WebSocket's message or a load balancer.
        The caller gets it. Other handlers and events are treated as Limits does.
        """
        run = _with_call(handler)

        @functools.wraps(handler)
        def wrapped(event, context):
            found = _of_lambda(event)
            sent = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
            call, answer = self._ask(lambda: self._caller(event), found, sent.get("origin"))
            if call is None:
                body = _body(found["method"], answer["body"]).decode()
                return {"statusCode": answer["status"], "headers": answer["headers"], "body": body}
            status = 500
            try:
                result = run(event, context, call)
                status = result.get("statusCode", 200) if isinstance(result, dict) else 200
                return _with_fields(result, list(answer["headers"].items()), event)
            finally:
                self._end(call, status)
        return wrapped

    async def _ask_async(self, caller, argument, scope, origin):
        try:
            who = caller(argument)
            if inspect.isawaitable(who):
                who = await who
        except Exception as failed:
            return self._ask(lambda: (_ for _ in ()).throw(failed), {}, origin)
        path = scope.get("raw_path") or urllib.parse.quote(scope["path"]).encode()
        found = {"method": scope.get("method", "GET"), "path": path.split(b"?")[0].decode("latin-1"),
                 "address": (scope.get("client") or [None])[0]}
        return await asyncio.to_thread(self._ask, lambda: who, found, origin)

    def _ask(self, caller, found, origin):
        """Returns the admitted call, or None, and the answer that admits or refuses it."""
        who = None
        try:
            who = caller() or {}
            if not who.get("subject") and not who.get("apiKey"):
                return self._refuse(origin, 401, detail="This request has no caller.",
                                    fields=[("WWW-Authenticate", self._challenge)])
            answer = check(self._door, {"settle": self._settle, **found, **who})
            if answer["allowed"]:
                return _parse(answer["context"], self._settler), answer
            answer["headers"].update(_exposed(self._origins, origin))
            return None, answer
        except Exception as failed:
            if who is None or isinstance(failed, Mistake):
                self._log.exception("request refused: the check is asked wrongly")
                return self._refuse(origin, 500, detail="The limits of this request cannot be checked.")
            if self._open and not who.get("apiKey"):
                self._log.warning("request passes unchecked: %s", failed)
                return _parse({"denied": False, "degraded": True}, self._settler), {"headers": {}}
            self._log.exception("request denied: it cannot be checked")
            return self._refuse(
                origin, 429, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "The limits cannot be checked right now. Retry after 1 second.", wait="1",
                fields=[("Retry-After", "1")])

    def _refuse(self, origin, status, kind="", detail="", wait="", fields=()):
        status, fields, body = _problem(
            status, kind, detail, wait=wait, fields=[*fields, *_exposed(self._origins, origin)])
        return None, {"allowed": False, "status": status, "headers": dict(fields), "body": body}

    def _end(self, call, status):
        """Gives back what a failed request took, and the place of a limit at once."""
        refund = self._refund_on(status)
        if not call.settlement or call._settled.is_set() or not (refund or call.at_once):
            return
        try:
            call.settle(0 if refund else {})
        except Exception:
            self._log.exception("the cost of a call stays charged")


def _of_wsgi(environ):
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return {"method": environ["REQUEST_METHOD"], "path": urllib.parse.quote(path.encode("latin-1")) or "/",
            "address": environ.get("REMOTE_ADDR")}


def _of_lambda(event):
    """Returns method, path and address of an event.

    A WebSocket's message has the method MESSAGE, and its route key as path. An event that
    is no request raises a TypeError: an answer would tell its source that it is done.
    """
    context = event.get("requestContext") if isinstance(event, dict) else None
    if not isinstance(context, dict):
        raise TypeError("tidegate: the event is no request: it has no requestContext. Call the handler "
                        "itself for events of queues, schedules and other sources")
    http_ = context.get("http") or {}
    address = http_.get("sourceIp") or (context.get("identity") or {}).get("sourceIp")
    if context.get("eventType"):
        return {"method": context["eventType"], "path": f"/{context.get('routeKey')}", "address": address}
    return {"method": http_.get("method") or event.get("httpMethod"),
            "path": event.get("rawPath") or event.get("path"), "address": address}


class _Closing:
    """A WSGI body that calls a function after it is closed."""

    def __init__(self, body, closed):
        self._body, self._closed = body, closed

    def __iter__(self):
        return iter(self._body)

    def close(self):
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._closed()
