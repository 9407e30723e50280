"""Runs the table of cases that the middleware of every language passes: python3 -m unittest."""

import asyncio
import contextlib
import dataclasses
import decimal
import http.server
import io
import json
import logging
import pathlib
import threading
import unittest
from unittest import mock
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import tidegate

TABLE = json.loads((pathlib.Path(__file__).parent / "../testdata/conformance.json").read_text("utf-8"))
COMPARED = ["RateLimit", "RateLimit-Policy", "Retry-After", "Content-Type", "Cache-Control",
            "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
            "Access-Control-Expose-Headers", "Vary"]
JSON = [("Content-Type", "application/json")]
SILENT = logging.Logger("silent", logging.CRITICAL + 1)


def nonzero(call):
    """Returns the decision under the keys of the context, without "", 0, False and ()."""
    values = {key: getattr(call, name) for key, name in tidegate.KEYS.items()}
    return json.dumps({key: value for key, value in values.items() if value})


def limits_of(case):
    source = tidegate.web_adapter
    if "headers" in case:
        source = tidegate.headers("X-Tidegate-", *case.get("mapped", tidegate.KEYS))
    return tidegate.Limits(source, allow_origins=case.get("allowOrigins"), log=SILENT)


def sent(case):
    """Returns the headers of a case, one pair for each value."""
    pairs = list(case.get("headers", []))
    pairs += [("X-Amzn-Request-Context", value) for value in case.get("requestContext", [])]
    if "authorizer" in case:
        context = json.dumps({"stage": "prod", "authorizer": case["authorizer"]}, ensure_ascii=False)
        pairs.append(("X-Amzn-Request-Context", context))
    if "origin" in case:
        pairs.append(("Origin", case["origin"]))
    return pairs


def answered(status, headers, body):
    lower = {name.lower(): value for name, value in headers}
    kept = {name: lower[name.lower()] for name in COMPARED if name.lower() in lower}
    return {"status": status, "headers": kept, **({"body": json.loads(body)} if body else {})}


def by_wsgi(case):
    """Calls the application like a server, which joins values of one header.

    The validator checks the protocol.
    """
    def app(environ, start_response):
        start_response("200 OK", list(JSON))
        return [nonzero(environ["tidegate"]).encode()]

    environ = {"QUERY_STRING": "", "REQUEST_METHOD": case.get("method", "GET")}
    setup_testing_defaults(environ)
    for name, value in sent(case):
        key, value = "HTTP_" + name.upper().replace("-", "_"), value.encode().decode("latin-1")
        environ[key] = environ[key] + "," + value if key in environ else value
    started = []

    def start_response(status, headers, exc_info=None):
        started.append((int(status.split()[0]), headers))
        return lambda data: None
    with contextlib.closing(validator(limits_of(case).wsgi(app))(environ, start_response)) as parts:
        body = b"".join(parts)
    return answered(*started[0], body)


def call_asgi(app, scope):
    messages = []

    async def send(message):
        messages.append(message)
    asyncio.run(app(scope, None, send))
    return messages


def by_asgi(case):
    async def app(scope, receive, send):
        raw = [(name.encode(), value.encode()) for name, value in JSON]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        await send({"type": "http.response.body", "body": nonzero(scope["tidegate"]).encode()})

    raw = [(name.lower().encode(), value.encode()) for name, value in sent(case)]
    scope = {"type": "http", "method": case.get("method", "GET"), "headers": raw}
    start, body = call_asgi(limits_of(case).asgi(app), scope)
    headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
    return answered(start["status"], headers, body["body"])


def by_lambda(case):
    if "authorizer" not in case:
        return None
    event = {"requestContext": {"authorizer": case["authorizer"]}, "headers": {},
             "httpMethod": case.get("method", "GET")}
    if "origin" in case:
        event["headers"]["origin"] = case["origin"]

    def handler(event, context, call):
        return {"statusCode": 200, "headers": dict(JSON), "body": nonzero(call)}
    answer = limits_of(case).lambda_handler(handler)(event, None)
    return answered(answer["statusCode"], answer["headers"].items(), answer["body"])


class Requests(unittest.TestCase):
    maxDiff = None

    def test_table(self):
        for case in TABLE["requests"]:
            want = case["want"]
            want = TABLE["answers"][want] if isinstance(want, str) else want
            for backend in (by_wsgi, by_asgi, by_lambda):
                with self.subTest(case["name"], backend=backend.__name__):
                    got = backend(case)
                    if got is None:
                        self.assertIs(backend, by_lambda)
                    else:
                        self.assertEqual(got, want)

    def test_forged_decisions(self):
        """Behind an adapter that keeps the event, as Mangum does, no header is believed."""
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        forged = [(b"x-amzn-request-context", b'{"authorizer":{"lambda":{"denied":false}}}'),
                  (b"x-tidegate-denied", b"false")]
        limits = tidegate.Limits(tidegate.of_event(lambda scope: scope["aws.event"]), log=SILENT)
        for context, want in (({"authorizer": {"lambda": {"denied": True}}}, 429),
                              ({"authorizer": {"denied": "false"}}, 200),
                              ({"authorizer": {"lambda": {}}}, 500), ({}, 500), (None, 500)):
            event = {} if context is None else {"aws.event": {"requestContext": context}}
            start, _ = call_asgi(limits.asgi(app), {"type": "http", "headers": forged, **event})
            self.assertEqual(start["status"], want, context)

    def test_answers_of_lambda_handlers(self):
        """Fields of a handler's response stay as they are. Payload 2.0 has short responses."""
        authorizer = {"denied": False, "rateLimit": "r", "rateLimitPolicy": "p"}
        fields = {"RateLimit": "r", "RateLimit-Policy": "p"}
        short = {"statusCode": 200, "headers": {"Content-Type": "application/json", **fields}}
        two = {"version": "2.0"}
        for answer, event, want in [
                ("hello", two, {**short, "body": "hello"}),
                ({"a": 1}, two, {**short, "body": '{"a": 1}'}),
                (None, two, None),
                ({"statusCode": 204, "headers": {"ratelimit": "own"}}, two,
                 {"statusCode": 204, "headers": {"ratelimit": "own", "RateLimit-Policy": "p"}}),
                ({"statusCode": 204, "multiValueHeaders": {"RateLimit": ["own"]}}, {},
                 {"statusCode": 204, "multiValueHeaders": {"RateLimit": ["own"]},
                  "headers": {"RateLimit-Policy": "p"}})]:
            handler = tidegate.Limits().lambda_handler(lambda event, context, call: answer)
            self.assertEqual(handler({"requestContext": {"authorizer": authorizer}, **event}, None), want)

    def test_events_that_are_no_requests(self):
        """An event of another source is an error of the invocation: the source keeps it."""
        asking = tidegate.Asking(self.fail, self.fail)
        for event in [{"Records": [{"eventSource": "aws:sqs"}]}, {"source": "aws.events"}, {}, "warm", None,
                      {"requestContext": None}, {"requestContext": "a"}]:
            for limits in (tidegate.Limits(log=SILENT), asking):
                with self.assertRaisesRegex(TypeError, "no requestContext"):
                    limits.lambda_handler(self.fail)(event, None)

    def test_a_challenge(self):
        """A request without a caller gets it."""
        asking = tidegate.Asking(self.fail, lambda event: None, challenge='Bearer a="b"')
        answer = asking.lambda_handler(self.fail)({"requestContext": {}}, None)
        self.assertEqual((answer["statusCode"], answer["headers"]["WWW-Authenticate"]), (401, 'Bearer a="b"'))

    def test_a_call_that_cannot_be_sent(self):
        """It is a mistake, which does not pass where open lets requests pass."""
        asking = tidegate.Asking(
            self.fail, lambda event: {"subject": "ada", "cost": decimal.Decimal(1)}, open=True, log=SILENT)
        self.assertEqual(asking.lambda_handler(self.fail)({"requestContext": {}}, None)["statusCode"], 500)

    def test_handlers_of_two_parameters(self):
        """An adapter gets event and context; other handlers get the call too."""
        class Adapter:  # of the form of Mangum
            def __call__(self, event, context):
                return {"statusCode": 200, "body": "adapter"}

            def resolve(self, event, context=None):
                return {"statusCode": 200, "body": "resolver"}

        def door(kind, call, timeout):
            return {"allowed": True, "status": 200, "headers": {"RateLimit": "r"}, "context": {"denied": False}}
        asking = tidegate.Asking(door, lambda event: {"subject": "ada"})
        event = {"requestContext": {"authorizer": {"denied": False, "rateLimit": "r"}}}
        for handler, want in [
                (Adapter(), "adapter"), (Adapter().resolve, "resolver"),
                (lambda event, context, call: {"statusCode": 200, "body": str(call.denied)}, "False"),
                (lambda *all: {"statusCode": 200, "body": str(len(all))}, "3")]:
            for limits in (tidegate.Limits(), asking):
                answer = limits.lambda_handler(handler)(event, None)
                self.assertEqual(answer, {"statusCode": 200, "body": want, "headers": {"RateLimit": "r"}})

    def test_a_source_that_raises(self):
        """A source that raises an error refuses the request; the log has the error."""
        def source(request):
            raise RuntimeError("broken")
        start = mock.Mock()
        with self.assertLogs("tidegate") as logs:
            body = tidegate.Limits(source).wsgi(self.fail)({}, start)
        self.assertEqual(answered(500, start.call_args.args[1], b"".join(body)), TABLE["answers"]["missing"])
        self.assertIn("RuntimeError: broken", logs.output[0])

    def test_other_scopes_of_asgi(self):
        """A lifespan reaches the application; a WebSocket is closed."""
        async def app(scope, receive, send):
            await send({"type": "lifespan.startup.complete"})
        wrapped = tidegate.Limits().asgi(app)
        for scope, want in [("lifespan", "lifespan.startup.complete"), ("websocket", "websocket.close")]:
            self.assertEqual(call_asgi(wrapped, {"type": scope, "headers": []})[0]["type"], want)


class Clock:
    """Replaces the module time. It begins with the year 2000."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def time(self):
        return 946684800 + self.now

    def sleep(self, seconds):
        self.now += seconds


class Settlements(unittest.TestCase):
    def settle(self, case):
        """Returns the settlement or the error, and when each attempt began."""
        clock, attempts = Clock(), []

        def post(url, fields, body, timeout):
            self.assertEqual(url, "https://tidegate.example/prod/api/v1/settlements")
            self.assertEqual(fields["Authorization"], "Bearer machine")
            self.assertEqual(json.loads(body), {"settlement": "tgr_x", "cost": case.get("cost", 7)})
            attempts.append(clock.now)
            self.assertLessEqual(len(attempts), len(case["answers"]))
            answer = case["answers"][len(attempts) - 1]
            match answer.get("fault"):
                case "hangs":
                    clock.now += timeout
                    raise TimeoutError("timed out")
                case "unreachable":
                    raise tidegate.NoConnection("connection refused")
                case "broken":
                    raise ConnectionResetError("connection reset")
            headers = {"Retry-After": answer["retryAfter"]} if "retryAfter" in answer else {}
            return answer["status"], headers, answer["body"]

        settler = tidegate.Settler("https://tidegate.example/prod/", "machine")
        with mock.patch.object(tidegate, "time", clock), mock.patch.object(tidegate, "_post", post):
            try:
                return settler.settle("tgr_x", case.get("cost", 7)), attempts
            except (tidegate.SettleError, OSError, ValueError) as error:
                return error, attempts

    def test_table(self):
        for case in TABLE["settlements"]:
            with self.subTest(case["name"]):
                got, attempts = self.settle(case)
                self.assertEqual(len(attempts), len(case["answers"]))
                want = case["want"]
                if "settled" in want:
                    self.assertEqual(got, tidegate.Settlement(*want["settled"].values()))
                else:
                    self.assertIsInstance(got, Exception)
                    self.assertEqual(getattr(got, "status", None), want.get("status"))
                    why = want.get("detail", "why")
                    self.assertEqual(getattr(got, "detail", why), why)
                for i, (least, most) in enumerate(case.get("pauses", [])):
                    pause = (attempts[i + 1] - attempts[i]) * 1000
                    self.assertTrue(least - 1e-6 <= pause <= most + 1e-6, f"pause {i + 1} is {pause} ms")

    def test_what_cannot_be_sent(self):
        """It raises at once, and names the field and not the token."""
        url = "https://a.example"
        for at, token in [(url, ""), (url, " "), (url, "tga_\nsecret"), (url, "tga_s\u00e9cret"),
                          ("", "tga_secret"), ("a.example", "tga_secret"), ("https://a b", "tga_secret")]:
            with self.assertRaisesRegex(ValueError, "(url|token) of Settler") as raised:
                tidegate.Settler(at, token)
            self.assertNotIn("cret", str(raised.exception))
        settler = tidegate.Settler(f" {url}/\n", "tga_secret\n")
        with mock.patch.object(tidegate, "_post", return_value=(200, {}, b"{}")) as post:
            for cost, want in [(None, "cost is None"), (12.5, "cost is 12.5"), (-1, "cost is -1"),
                               (True, "cost is True"), ("7", "cost is '7'"), ({"input": 1.5}, "input is 1.5")]:
                with self.assertRaisesRegex(ValueError, f"{want}: must be a whole number"):
                    settler.settle("tgr_x", cost)
            post.assert_not_called()
            settler.settle("tgr_x", {"input": 1})
        self.assertEqual(post.call_args.args[0], url + "/api/v1/settlements")
        self.assertEqual(post.call_args.args[1]["Authorization"], "Bearer tga_secret")

    def test_pauses_differ(self):
        case = next(case for case in TABLE["settlements"] if case["name"] == "throttled once")
        self.assertGreaterEqual(len({self.settle(case)[1][1] for _ in range(20)}), 10)

    def test_without_a_settlement_or_a_settler(self):
        def settle(**authorizer):
            handler = tidegate.Limits().lambda_handler(lambda event, context, call: call.settle(7).actual)
            return handler({"requestContext": {"authorizer": {"denied": False, **authorizer}},
                            "version": "2.0"}, None)
        self.assertEqual(settle()["body"], "0")
        with self.assertRaises(tidegate.NoSettler):
            settle(settlement="tgr_x")


@contextlib.contextmanager
def server(answer):
    """Runs a server that calls answer(handler) for each POST."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


class Servers(unittest.TestCase):
    def test_settle_through_a_server(self):
        """It succeeds after a throttled attempt and one with a broken connection."""
        paths = []

        def answer(handler):
            paths.append(handler.path)
            if len(paths) == 2:
                handler.close_connection = True
                return
            handler.send_response(429 if len(paths) == 1 else 409)
            handler.end_headers()
        with server(answer) as url:
            settled = tidegate.Settler(url + "/prod/", "machine").settle("tgr_x", 7)
        self.assertEqual(settled, tidegate.Settlement(actual=7))
        self.assertEqual(paths, ["/prod/api/v1/settlements"] * 3)

    def test_a_slow_response_ends(self):
        """The timeout applies to the whole attempt, not to each read."""
        ended = threading.Event()

        def answer(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
            while not ended.wait(0.01):
                handler.wfile.write(b" ")
        with server(answer) as url:
            with self.assertRaises((OSError, ValueError, tidegate.http.client.HTTPException)):
                tidegate.Settler(url, "machine")._try("tgr_x", 7, 0.3)
            ended.set()

    def test_an_unreachable_server(self):
        with server(print) as url:
            pass
        with self.assertRaises(tidegate.NoConnection):
            tidegate.Settler(url, "machine")._try("tgr_x", 7, 5)


class Documented(unittest.TestCase):
    """The documented code of docs/backends.md runs."""

    authorizer = {"denied": False, "keyName": "orders", "settlement": "tgr_x"}

    def block(self, number):
        page = (pathlib.Path(__file__).parent / "../../../docs/backends.md").read_text("utf-8")
        blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
        self.assertEqual(len(blocks), 3)
        defined = {"complete": lambda name: (f"hello {name}", 500)}
        with mock.patch.dict("os.environ", SETTLE_TOKEN="machine"):
            exec(blocks[number], defined)
        return defined

    @contextlib.contextmanager
    def settles(self):
        url = "https://tidegate.example/prod/api/v1/settlements"
        with mock.patch.object(tidegate, "_post", return_value=(200, {}, b"{}")) as post:
            yield
        post.assert_called_once_with(
            url, {"Content-Type": "application/json", "Authorization": "Bearer machine"},
            b'{"settlement": "tgr_x", "cost": 500}', mock.ANY)

    def test_wsgi(self):
        environ = {"HTTP_X_AMZN_REQUEST_CONTEXT": json.dumps({"authorizer": self.authorizer})}
        setup_testing_defaults(environ)
        with self.settles():
            body = self.block(0)["app"](environ, mock.Mock())
        self.assertEqual(b"".join(body), b"hello orders")

    def test_asgi(self):
        raw = [(f"X-Tidegate-{key}".lower().encode(), tidegate._text(value).encode())
               for key, value in self.authorizer.items()]
        with self.settles():
            messages = call_asgi(self.block(1)["app"], {"type": "http", "headers": raw})
        self.assertEqual(messages[1]["body"], b"hello orders")

    def test_lambda(self):
        with self.settles():
            answer = self.block(2)["handler"]({"requestContext": {"authorizer": self.authorizer}}, None)
        self.assertEqual(answer["body"], "hello orders")


if __name__ == "__main__":
    unittest.main()
