"""Runs the table of cases of Asking against the check function at DOOR.

The test in Go starts both.
"""

import asyncio
import io
import json
import logging
import os
import pathlib
import unittest
from urllib.parse import unquote

import fastapi
import flask

from tidegate import Asking, on_machine, server_errors

TABLE = json.loads((pathlib.Path(__file__).parent.parent / "testdata/asking.json").read_text())
COMPARED = [
    "Retry-After", "Content-Type", "Cache-Control", "WWW-Authenticate", "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "Vary",
]
logging.getLogger("tidegate").setLevel(logging.CRITICAL)
logging.getLogger("asking").setLevel(logging.CRITICAL)  # Flask's, of handlers that fail


class Failure(Exception):
    """What a handler raises that fails."""


def serve(call, tidegate):
    """The handler of every backend: returns status and body."""
    call["served"] = True
    does = call.get("serve", {})
    if "settles" in does:
        tidegate.settle(does["settles"])
    if does.get("fails"):
        raise Failure()
    body = {"plan": tidegate.plan, "keyName": tidegate.key_name, "degraded": tidegate.degraded}
    return does.get("status", 200), json.dumps(body)


JSON = [("Content-Type", "application/json")]


def over_wsgi(app, call):
    path, _, query = call.get("path", "/").partition("?")
    environ = {"wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(),
               "wsgi.errors": io.StringIO(), "REQUEST_METHOD": call.get("method", "GET"),
               "PATH_INFO": unquote(path), "QUERY_STRING": query, "SERVER_NAME": "backend",
               "SERVER_PORT": "80", "REMOTE_ADDR": "203.0.113.1"}
    if "origin" in call:
        environ["HTTP_ORIGIN"] = call["origin"]
    started = []
    try:
        body = app(environ, lambda status, headers, exc=None: started.append((status, headers)))
        text = b"".join(body)
        if hasattr(body, "close"):
            body.close()
    except Failure:
        return 500, {}, ""
    status, headers = started[0]
    return int(status.split()[0]), dict(headers), text.decode()


def over_asgi(app, call):
    path, _, query = call.get("path", "/").partition("?")
    scope = {"type": "http", "method": call.get("method", "GET"), "path": unquote(path),
             "raw_path": path.encode(), "query_string": query.encode(), "client": ["203.0.113.1", 1],
             "headers": [(b"origin", call["origin"].encode())] if "origin" in call else []}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)
    try:
        asyncio.run(app(scope, receive, send))
    except Failure:
        return 500, {}, ""
    headers = {name.decode().title(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(m.get("body", b"") for m in sent[1:]).decode()


def wsgi(limits, call):
    def app(environ, start_response):
        status, body = serve(call, environ["tidegate"])
        start_response(f"{status} Status", JSON)
        return [body.encode()]
    return over_wsgi(limits.wsgi(app), call)


def asgi(limits, call):
    async def app(scope, receive, send):
        status, body = await asyncio.to_thread(serve, call, scope["tidegate"])
        headers = [(name.lower().encode(), value.encode()) for name, value in JSON]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})
    return over_asgi(limits.asgi(app), call)


def in_flask(limits, call):
    app = flask.Flask("asking")
    limits.flask(app)

    @app.route("/", defaults={"path": ""}, methods=["GET", "POST"])
    @app.route("/<path:path>", methods=["GET", "POST"])
    def view(path):
        status, body = serve(call, flask.g.tidegate)
        return app.response_class(body, status, JSON)
    return over_wsgi(app, call)


def in_fastapi(limits, call):
    app = fastapi.FastAPI()
    app.add_middleware(limits.asgi)

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    def view(request: fastapi.Request):
        status, body = serve(call, request.scope["tidegate"])
        return fastapi.Response(body, status, dict(JSON))
    return over_asgi(app, call)


def in_lambda(limits, call):
    @limits.lambda_handler
    def handler(event, context, tidegate):
        status, body = serve(call, tidegate)
        return {"statusCode": status, "headers": dict(JSON), "body": body}
    event = {"version": "2.0", "rawPath": call.get("path", "/").partition("?")[0],
             "headers": {"origin": call["origin"]} if "origin" in call else {},
             "requestContext": {"http": {"method": call.get("method", "GET"), "sourceIp": "203.0.113.1"}}}
    try:
        answer = handler(event, None)
    except Failure:
        return 500, {}, ""
    return answer["statusCode"], answer["headers"], answer["body"]


class Cases(unittest.TestCase):
    def test_cases(self):
        for backend in (wsgi, asgi, in_flask, in_fastapi, in_lambda):
            for case in TABLE["cases"]:
                with self.subTest(backend=backend.__name__, case=case["name"]):
                    self.play(backend, case)

    def play(self, backend, case):
        doors = {"closed": "http://127.0.0.1:1", "hangs": os.environ["DOOR_HANGS"]}
        for number, one in enumerate(case["calls"], 1):
            call = dict(one)
            door = on_machine(doors.get(case.get("door"), os.environ["DOOR"]))
            limits = Asking(
                door, lambda _, call=call: self.caller(backend, case, call),
                refund_on=server_errors if case.get("refund") else None, open=case.get("open", False),
                allow_origins=case.get("allowOrigins"))
            self.compare(number, call, *backend(limits, call))

    def caller(self, backend, case, call):
        found = dict(call.get("as", {}))
        if "subject" in found:
            found["subject"] = f"python {backend.__name__} {case['name']} {found['subject']}"
        if "apiKey" in found:
            key = found["apiKey"].replace("UNKNOWN", os.environ["DOOR_UNKNOWN"])
            found["apiKey"] = key.replace("GOOD", os.environ["DOOR_KEY"])
        return found or None

    def compare(self, number, call, status, headers, text):
        want = call["want"]
        self.assertEqual((status, call.get("served", False)), (want["status"], want.get("served", False)),
                         f"call {number}: {text}")
        if call.get("serve", {}).get("fails"):
            return
        headers = {name.lower(): value for name, value in headers.items()}
        for part in want.get("rateLimit", []):
            self.assertIn(part, headers.get("ratelimit", ""), f"call {number}")
        wanted = dict(JSON) if want.get("served") else dict(TABLE["refused"])
        wanted.update(want.get("headers", {}))
        for name in COMPARED:
            got = headers.get(name.lower(), "").replace("json; charset=utf-8", "json")
            if wanted.get(name) == "*":
                self.assertTrue(got, name)
            else:
                self.assertEqual(got, wanted.get(name, ""), f"call {number}: {name}")
        body = json.loads(text)
        for name, value in want.get("body", {}).items():
            self.assertEqual(body[name], value, f"call {number}: {name}")


class Dependency(unittest.TestCase):
    """FastAPI's own user is a dependency."""

    def test_dependency(self):
        limits = Asking(on_machine(os.environ["DOOR"]), lambda user: user, refund_on=server_errors)

        async def current_user(request: fastapi.Request):
            name = request.headers.get("origin")
            return {"subject": f"dependency {name}", "plan": "two"} if name else None
        app = fastapi.FastAPI()

        @app.get("/{path:path}")
        def view(path, tidegate=fastapi.Depends(limits.fastapi(current_user))):
            if path == "fails":
                raise fastapi.HTTPException(503)
            return {"plan": tidegate.plan}
        for call, want in (
                ({}, 401), ({"path": "/fails", "origin": "a"}, 503), ({"origin": "a"}, 200),
                ({"origin": "a"}, 200), ({"origin": "a"}, 429)):
            status, headers, text = over_asgi(app, call)
            self.assertEqual(status, want, text)
            if status == 200:
                self.assertIn('"2 per hour"', headers["Ratelimit"])
            if status == 429:
                self.assertTrue(headers["Retry-After"])
                self.assertIn('"violated-policies":["2 per hour"]', text)
