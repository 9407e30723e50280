"use strict";

// Runs the table of cases that the middleware of every language passes: node --test.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { PassThrough } = require("node:stream");
const { mock, test } = require("node:test");
const express = require("express");
const fastify = require("fastify");
const { Asking, Limits, Settler, SettleError, webAdapter, ofEvent, headers } = require("./tidegate.cjs");

process.env.SETTLE_TOKEN = "machine"; // of the documented backends

const table = JSON.parse(fs.readFileSync(path.join(__dirname, "../testdata/conformance.json"), "utf8"));
const compared = [
  "RateLimit", "RateLimit-Policy", "Retry-After", "Content-Type", "Cache-Control",
  "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
  "Access-Control-Expose-Headers", "Vary",
];
const json = { "Content-Type": "application/json" };

// nonzero returns the decision without values that are "", 0, false or [].
function nonzero(call) {
  const set = Object.entries(call).filter(([, value]) => value.length !== 0 && value);
  return Object.fromEntries(set);
}

// keys are all keys of the context.
const keys = [
  "denied", "keyId", "keyName", "plan", "route", "policyVersion", "keyVersion", "limit", "remaining",
  "reset", "rateLimit", "rateLimitPolicy", "retryAfter", "wait", "message", "problemType",
  "violatedPolicies", "reference", "settlement", "shadowDenied", "degraded",
];

function optionsOf(c) {
  const source = c.headers ? headers("X-Tidegate-", ...(c.mapped ?? keys)) : webAdapter;
  return { source, allowOrigins: c.allowOrigins, log: () => {} };
}

// sent returns the headers of a case, one pair for each value.
function sent(c) {
  const pairs = [...(c.headers ?? [])];
  for (const value of c.requestContext ?? []) pairs.push(["X-Amzn-Request-Context", value]);
  if (c.authorizer !== undefined) {
    pairs.push(["X-Amzn-Request-Context", JSON.stringify({ stage: "prod", authorizer: c.authorizer })]);
  }
  if (c.origin) pairs.push(["Origin", c.origin]);
  return pairs;
}

// over calls a server over HTTP, with headers encoded as UTF-8.
async function over(server, c) {
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  try {
    const raw = [["Host", "backend.example"], ...sent(c)]
      .flatMap(([name, value]) => [name, Buffer.from(value).toString("latin1")]);
    const { port } = server.address();
    return await new Promise((done, failed) => {
      const { method = "GET", path = "/" } = c;
      const to = { host: "127.0.0.1", port, method, path, headers: raw, timeout: 10_000 };
      const request = http.request(to, (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () => {
          done(answered(response.statusCode, response.headers, Buffer.concat(chunks)));
        });
      });
      request.on("error", failed).on("timeout", () => request.destroy(new Error("no answer"))).end();
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

function answered(status, all, body) {
  const lower = Object.fromEntries(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value]));
  const kept = compared.filter((name) => lower[name.toLowerCase()] !== undefined);
  const plain = (value) => value.replace("json; charset=utf-8", "json"); // frameworks add it
  const headers = Object.fromEntries(kept.map((name) => [name, plain(lower[name.toLowerCase()])]));
  return { status, headers, text: String(body) };
}

// comparable returns a response in the form of the table.
function comparable({ status, headers, text }) {
  return text === "" ? { status, headers } : { status, headers, body: JSON.parse(text) };
}

const backends = {
  express(c) {
    const app = express();
    app.use(new Limits(optionsOf(c)).express);
    app.get("/", (request, response) => response.json(nonzero(request.tidegate)));
    return over(http.createServer(app), c);
  },

  async fastify(c) {
    const app = fastify();
    app.addHook("onRequest", new Limits(optionsOf(c)).fastify);
    app.get("/", (request, reply) => reply.send(nonzero(request.tidegate)));
    await app.ready();
    return over(app.server, c);
  },

  async lambda(c) {
    if (c.authorizer === undefined) return undefined;
    const handler = new Limits(optionsOf(c)).lambda(async (_event, _context, call) => (
      { statusCode: 200, headers: json, body: JSON.stringify(nonzero(call)) }));
    const requestContext = { authorizer: c.authorizer, http: { method: c.method } };
    const event = { requestContext, headers: { origin: c.origin } };
    const { statusCode, headers, body } = await handler(event, {});
    return answered(statusCode, headers, body);
  },
};

for (const [name, backend] of Object.entries(backends)) {
  for (const c of table.requests) {
    test(`${name}: ${c.name}`, { timeout: 20_000 }, async () => {
      const got = await backend(c);
      const want = typeof c.want === "string" ? table.answers[c.want] : c.want;
      if (got) assert.deepEqual(comparable(got), want);
      else assert.equal(name, "lambda");
    });
  }
}

const nothing = { reserved: 0, actual: 0, owed: 0, partial: false };

// scripted returns a settler whose attempts get the responses of a case, and the start of
// each attempt.
function scripted(c) {
  const attempts = [];
  const fetch = async (url, { body, signal, headers }) => {
    assert.equal(url, "https://tidegate.example/prod/api/v1/settlements");
    assert.equal(headers.Authorization, "Bearer machine");
    assert.deepEqual(JSON.parse(body), { settlement: "tgr_x", cost: c.cost ?? 7 });
    attempts.push(Date.now());
    assert.ok(attempts.length <= c.answers.length, `attempt ${attempts.length}`);
    const { fault, status, retryAfter, body: text } = c.answers[attempts.length - 1];
    if (fault === "hangs") {
      return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
    }
    if (fault) {
      const cause = Object.assign(new Error(fault), fault === "unreachable" ? { code: "ECONNREFUSED" } : {});
      throw new TypeError("fetch failed", { cause });
    }
    return new Response(text, { status, headers: retryAfter ? { "Retry-After": retryAfter } : {} });
  };
  const settler = new Settler({ url: "https://tidegate.example/prod/", token: "machine", fetch });
  return { settler, attempts };
}

// settled settles a case on a simulated clock that starts in the year 2000.
async function settled(c) {
  const { settler, attempts } = scripted(c);
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.UTC(2000, 0, 1) });
  try {
    let result;
    settler.settle("tgr_x", c.cost ?? 7).then((value) => (result = { value }), (error) => (result = { error }));
    for (let turns = 0; !result && turns < 100_000; turns++) {
      await new Promise((turn) => setImmediate(turn));
      if (turns % 5 === 4 && !result) mock.timers.tick(10);
    }
    assert.ok(result, "the settlement does not end");
    return { ...result, attempts };
  } finally {
    mock.timers.reset();
  }
}

for (const c of table.settlements) {
  test(`settle: ${c.name}`, { timeout: 20_000 }, async () => {
    const { value, error, attempts } = await settled(c);
    assert.equal(attempts.length, c.answers.length, "attempts");
    if (c.want.settled) assert.deepEqual([value, error], [c.want.settled, undefined]);
    else {
      assert.ok(error);
      assert.equal(error instanceof SettleError ? error.status : undefined, c.want.status);
      if (c.want.status) assert.equal(error.detail, c.want.detail ?? "why");
    }
    for (const [i, [least, most]] of (c.pauses ?? []).entries()) {
      const took = attempts[i + 1] - attempts[i];
      assert.ok(took >= least && took <= most + 20, `pause ${i + 1} is ${took} ms, want ${least} to ${most}`);
    }
  });
}

test("pauses differ", { timeout: 20_000 }, async () => {
  const c = table.settlements.find(({ name }) => name === "throttled once");
  const pauses = new Set();
  for (let i = 0; i < 20; i++) {
    const { attempts } = await settled(c);
    pauses.add(attempts[1] - attempts[0]);
  }
  assert.ok(pauses.size >= 4, `${pauses.size} different pauses of 20, in steps of 10 ms`);
});

// A settlement succeeds after a throttled attempt and one with a broken connection.
test("settle through a server", { timeout: 20_000 }, async () => {
  let attempts = 0;
  const server = http.createServer((request, response) => {
    attempts++;
    if (attempts === 2) request.socket.destroy();
    else response.writeHead(attempts === 1 ? 429 : 409).end("{}");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${server.address().port}`;
  try {
    const handler = new Limits({ settler: { url, token: "machine" } }).lambda((_event, _context, call) => (
      call.settle(7)));
    const authorizer = { denied: false, settlement: "tgr_x" };
    const answer = await handler({ requestContext: { authorizer } });
    assert.deepEqual(answer, { ...nothing, actual: 7, headers: {} });
    assert.equal(attempts, 3);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

// An attempt at a closed port cannot have settled, so a 409 after it is an error.
test("an unreachable server", { timeout: 20_000 }, async () => {
  const server = http.createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  const answers = [() => fetch(`http://127.0.0.1:${port}`), () => new Response("{}", { status: 409 })];
  const settler = new Settler({ url: "http://127.0.0.1", token: "machine", fetch: () => answers.shift()() });
  await assert.rejects(settler.settle("tgr_x", 7), { name: "SettleError", status: 409 });
});

test("settle without a settlement or a settler", async () => {
  const run = (authorizer, settler) => new Limits({ settler })
    .lambda((_event, _context, call) => call.settle(7))({ requestContext: { authorizer } });
  const unused = { settle: () => assert.fail("settle called the API without a settlement") };
  assert.deepEqual(await run({ denied: false }, Object.setPrototypeOf(unused, Settler.prototype)),
    { ...nothing, headers: {} });
  await assert.rejects(run({ denied: false, settlement: "tgr_x" }), /no settler/);
});

// Fields of a handler's response stay as they are. Payload 2.0 has short responses.
test("answers of Lambda handlers", async () => {
  const authorizer = { denied: false, rateLimit: "r", rateLimitPolicy: "p" };
  const run = (answer, event) => new Limits().lambda(async () => answer)(
    { requestContext: { authorizer }, ...event });
  const fields = { RateLimit: "r", "RateLimit-Policy": "p" };
  const two = { version: "2.0" };
  const short = { statusCode: 200, headers: { "Content-Type": "application/json", ...fields } };
  assert.deepEqual(await run("hello", two), { ...short, body: "hello" });
  assert.deepEqual(await run({ a: 1 }, two), { ...short, body: '{"a":1}' });
  assert.equal(await run(undefined, two), undefined);
  assert.deepEqual(await run({ statusCode: 204, headers: { ratelimit: "own" } }, two),
    { statusCode: 204, headers: { ratelimit: "own", "RateLimit-Policy": "p" } });
  assert.deepEqual(await run({ statusCode: 204, multiValueHeaders: { RateLimit: ["own"] } }, {}),
    { statusCode: 204, multiValueHeaders: { RateLimit: ["own"] }, headers: { "RateLimit-Policy": "p" } });
});

// A source that throws an error refuses the request; the log has the error.
test("a source that throws", async () => {
  const lines = [];
  const source = () => { throw new Error("broken"); };
  const app = express();
  app.use(new Limits({ source, log: (...line) => lines.push(line) }).express);
  app.get("/", (_request, response) => response.end("served"));
  assert.deepEqual(comparable(await over(http.createServer(app), {})), table.answers.missing);
  assert.equal(lines[0][1].message, "broken");
});

// The content of a request does not reach the log.
test("a log without the context", async () => {
  const lines = [];
  const source = webAdapter;
  const app = express();
  app.use(new Limits({ source, log: (...line) => lines.push(line) }).express);
  await over(http.createServer(app), { requestContext: ["secret"] });
  assert.equal(lines[0][1].message, "the authorizer context is not JSON");
});

// Behind an adapter that keeps the event, as serverless-http does, a decision that the
// client sends in a header is not believed, whether the call has one or not.
test("forged decisions", async () => {
  const forged = { authorizer: { lambda: { denied: false } } };
  for (const [requestContext, want] of [
    [{ authorizer: { lambda: { denied: true } } }, 429], [{ authorizer: { denied: "false" } }, 200],
    [{ authorizer: { lambda: {} } }, 500], [{}, 500], [undefined, 500],
  ]) {
    const app = express();
    app.use((request, _response, next) => {
      if (requestContext) request.apiGateway = { event: { requestContext } };
      next();
    });
    const source = ofEvent((request) => request.apiGateway?.event);
    app.use(new Limits({ source, log: () => {} }).express);
    app.get("/", (_request, response) => response.end("{}"));
    const answer = await over(http.createServer(app), { ...forged, headers: [["X-Tidegate-denied", "false"]] });
    assert.equal(answer.status, want);
  }
});

// CORS headers that an earlier handler has set are unchanged.
test("CORS headers stay", async () => {
  const app = express();
  app.use((_request, response, next) => {
    response.set("Access-Control-Allow-Origin", "https://c.example");
    next();
  });
  app.use(new Limits(optionsOf({})).express);
  const { headers } = await over(http.createServer(app), { authorizer: { denied: true } });
  assert.equal(headers["Access-Control-Allow-Origin"], "https://c.example");
  assert.equal(headers["Access-Control-Expose-Headers"], undefined);
});

// An event of another source is an error of the invocation, so that the source keeps it.
test("events that are no requests", async () => {
  const handler = new Limits({ log: () => assert.fail("no request") }).lambda(() => assert.fail("handled"));
  const asking = new Asking({ door: () => assert.fail("asked"), caller: () => assert.fail("asked") });
  for (const event of [{ Records: [{ eventSource: "aws:sqs" }] }, { source: "aws.events" }, {}, "warm", null,
    undefined, { requestContext: null }, { requestContext: "a" }]) {
    await assert.rejects(handler(event, {}), { name: "TypeError", message: /no requestContext/ });
    await assert.rejects(asking.lambda(() => assert.fail("handled"))(event, {}), /no requestContext/);
  }
});

// A request without a caller gets the challenge.
test("a challenge", async () => {
  const asking = new Asking({ door: () => assert.fail("asked"), caller: () => undefined, challenge: 'Bearer a="b"' });
  const { statusCode, headers } = await asking.lambda(() => assert.fail("handled"))({ requestContext: {} }, {});
  assert.deepEqual([statusCode, headers["WWW-Authenticate"]], [401, 'Bearer a="b"']);
});

// A call that can never be sent is a mistake, which does not pass where open lets requests pass.
test("a call that cannot be sent", async () => {
  const asking = new Asking({
    door: () => assert.fail("asked"), caller: () => ({ subject: "ada", cost: 12n }), open: true, log: () => {},
  });
  const { statusCode } = await asking.lambda(() => assert.fail("handled"))({ requestContext: {} }, {});
  assert.equal(statusCode, 500);
});

// A handler within awslambda.streamifyResponse gets stream and context, and a refusal is
// written to the stream.
test("streamed Lambda handlers", async (t) => {
  const started = [];
  globalThis.awslambda = { HttpResponseStream: { from: (stream, start) => (started.push(start), stream) } };
  t.after(() => delete globalThis.awslambda);
  const door = async (kind, { subject }) => (subject === "ada"
    ? { allowed: true, status: 200, context: { denied: false, rateLimit: "r" } }
    : { allowed: false, status: 429, headers: { "Retry-After": "1" }, body: "wait" });
  const asking = new Asking({ door, caller: ({ user }) => ({ subject: user }) });
  const context = { awsRequestId: "1" };
  for (const limits of [new Limits(), asking]) {
    const handler = limits.lambda(async (_event, stream, given, call) => {
      assert.equal(given, context);
      stream.end(`served ${call.rateLimit}`);
    });
    const authorizer = { denied: false, rateLimit: "r" };
    const run = async (event) => {
      const stream = new PassThrough();
      assert.equal(await handler(event, stream, context), undefined);
      return String(Buffer.concat(await stream.toArray()));
    };
    assert.equal(await run({ user: "ada", requestContext: { authorizer } }), "served r");
    assert.equal(started.length, 0);
    const denied = { denied: true, message: "wait", retryAfter: 1 };
    assert.match(await run({ user: "bob", requestContext: { authorizer: denied } }), /wait/);
    const [{ statusCode, headers }] = started.splice(0);
    assert.deepEqual([statusCode, headers["Retry-After"]], [429, "1"]);
  }
});

// A reply that its handler writes itself has the fields; a handler's own fields stay.
test("hijacked replies", { timeout: 20_000 }, async () => {
  const answer = { allowed: true, status: 200, headers: { RateLimit: "r" }, context: { denied: false } };
  const asking = new Asking({ door: async () => answer, caller: () => ({ subject: "ada" }) });
  const limits = new Limits({ source: () => ({ denied: false, rateLimit: "r" }) });
  for (const hook of [limits.fastify, asking.fastify]) {
    for (const [path, want] of [["/stream", "r"], ["/own", "own"], ["/plain", "r"]]) {
      const app = fastify();
      app.addHook("onRequest", hook);
      app.get("/stream", (_request, reply) => {
        reply.hijack();
        reply.raw.writeHead(200, { "Content-Type": "text/event-stream" }).end("data: 1\n\n");
      });
      app.get("/own", (_request, reply) => reply.header("RateLimit", "own").send("x"));
      app.get("/plain", async () => "x");
      await app.ready();
      const { status, headers } = await over(app.server, { path });
      assert.deepEqual([status, headers.RateLimit], [200, want], path);
    }
  }
});

// What can never be sent is an error at once, which names the field and not the token.
test("a settler of what cannot be sent", async () => {
  const url = "https://a.example";
  for (const options of [{ url }, { url, token: " " }, { url, token: "tga_\nsecret" }, { url, token: "tga_sécret" },
    { token: "tga_secret" }, { url: "a.example", token: "tga_secret" }, { url: "https://a b", token: "tga_secret" }]) {
    assert.throws(() => new Settler(options), ({ message }) => (
      /(url|token) of Settler/.test(message) && !message.includes("cret")));
  }
  const requests = [];
  const fetch = async (to, { headers }) => {
    requests.push(`${to} ${headers.Authorization}`);
    return new Response("{}");
  };
  const settler = new Settler({ url: ` ${url}/\n`, token: "tga_secret\n", fetch });
  for (const [cost, want] of [[undefined, "cost is undefined"], [null, "cost is an object"], [12.5, "cost is 12.5"],
    [12n, "cost is a bigint"], [-1, "cost is -1"], [NaN, "cost is NaN"], ["7", "cost is a string"], [[7], "cost is an object"],
    [{ input: 1.5 }, "input is 1.5"], [{ input: undefined }, "input is undefined"]]) {
    await assert.rejects(settler.settle("tgr_x", cost), ({ message }) => message.includes(want), want);
  }
  await settler.settle("tgr_x", { input: 1 });
  assert.deepEqual(requests, [`${url}/api/v1/settlements Bearer tga_secret`]);
});

// documented runs a block of code of docs/backends.md and returns the value of result.
function documented(number, result) {
  const page = fs.readFileSync(path.join(__dirname, "../../../docs/backends.md"), "utf8");
  const blocks = page.split("```js\n").slice(1).map((block) => block.split("```")[0]);
  assert.equal(blocks.length, 3);
  const complete = async (name) => ({ text: `hello ${name}`, tokensUsed: 500 });
  const run = new Function("require", "exports", "complete", `${blocks[number]}; return ${result};`);
  return run(require, {}, complete);
}

// settledBy returns the response of a backend, which must settle a cost of 500 once.
async function settledBy(backend) {
  const requests = [];
  mock.method(globalThis, "fetch", async (url, { body }) => {
    requests.push([url, JSON.parse(body)]);
    return new Response("{}");
  });
  try {
    const answer = await backend();
    const url = "https://tidegate.example/prod/api/v1/settlements";
    assert.deepEqual(requests, [[url, { settlement: "tgr_x", cost: 500 }]]);
    return answer;
  } finally {
    mock.restoreAll();
  }
}

const reserved = { denied: false, keyName: "orders", settlement: "tgr_x" };

test("the documented backend in Express", { timeout: 20_000 }, async () => {
  const server = http.createServer(documented(0, "app"));
  const answer = await settledBy(() => over(server, { authorizer: reserved, method: "POST", path: "/chat" }));
  assert.deepEqual([answer.status, answer.text], [200, "hello orders"]);
});

test("the documented backend in Fastify", { timeout: 20_000 }, async () => {
  const app = documented(1, "app");
  await app.ready();
  const sent = [["X-Tidegate-denied", "false"], ["X-Tidegate-keyName", "orders"]];
  const answer = await over(app.server, { headers: sent, path: "/hello" });
  assert.deepEqual([answer.status, answer.text], [200, "hello orders"]);
});

test("the documented Lambda handler", async () => {
  const handler = documented(2, "exports.handler");
  const answer = await settledBy(() => handler({ requestContext: { authorizer: { lambda: reserved } } }, {}));
  assert.equal(answer.body, "hello orders");
});

test("it can be imported", async () => {
  const { Limits: imported } = await import("./tidegate.cjs");
  assert.equal(imported, Limits);
});
