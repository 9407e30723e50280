"use strict";

// Runs the table of cases of Asking against the check function at DOOR: the test in Go
// starts both.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { test } = require("node:test");
const express = require("express");
const fastify = require("fastify");
const { Asking, onMachine, serverErrors } = require("./tidegate.cjs");

const table = JSON.parse(fs.readFileSync(path.join(__dirname, "../testdata/asking.json"), "utf8"));
const compared = [
  "Retry-After", "Content-Type", "Cache-Control", "WWW-Authenticate", "Access-Control-Allow-Origin",
  "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "Vary",
];

// serve is the handler of every backend. It calls respond with the status and the body.
async function serve(call, tidegate, respond) {
  call.served = true;
  const { settles, fails, status = 200 } = call.serve ?? {};
  if (settles) await tidegate.settle(settles);
  if (fails) throw new Error("the handler fails");
  const { plan, keyName, degraded } = tidegate;
  return respond(status, { plan, keyName, degraded });
}

async function over(server, call) {
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  try {
    const response = await fetch(`http://127.0.0.1:${port}${call.path ?? "/"}`, {
      method: call.method, headers: call.origin ? { Origin: call.origin } : {},
    });
    const header = (name) => response.headers.get(name);
    return { status: response.status, header, text: await response.text() };
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const backends = {
  express(limits, call) {
    const app = express();
    app.set("env", "test"); // logs no errors
    app.use(limits.express);
    app.use((request, response) => (
      serve(call, request.tidegate, (status, body) => response.status(status).json(body))));
    return over(http.createServer(app), call);
  },

  async fastify(limits, call) {
    const app = fastify();
    app.addHook("preHandler", limits.fastify);
    app.all("/*", (request, reply) => (
      serve(call, request.tidegate, (status, body) => reply.code(status).send(body))));
    await app.ready();
    return over(app.server, call);
  },

  async lambda(limits, call) {
    const headers = { "Content-Type": "application/json" };
    const handler = limits.lambda((_event, _context, tidegate) => (
      serve(call, tidegate, (statusCode, body) => ({ statusCode, headers, body: JSON.stringify(body) }))));
    const [rawPath] = (call.path ?? "/").split("?");
    const event = {
      version: "2.0", rawPath, headers: { origin: call.origin },
      requestContext: { http: { method: call.method ?? "GET", sourceIp: "203.0.113.1" } },
    };
    try {
      const { statusCode: status, headers: sent, body: text } = await handler(event, {});
      return { status, header: (name) => new Headers(sent).get(name), text };
    } catch (cause) {
      assert.equal(cause.message, "the handler fails");
      return { status: 500, header: () => "", text: "" };
    }
  },
};

function compare(number, call, { status, header, text }) {
  const { want } = call;
  assert.equal(status, want.status, `call ${number}: ${text}`);
  assert.equal(Boolean(call.served), Boolean(want.served), `call ${number}: served`);
  if (call.serve?.fails) return;
  for (const part of want.rateLimit ?? []) {
    assert.ok(header("RateLimit")?.includes(part), `call ${number}: ${header("RateLimit")} has no ${part}`);
  }
  const usual = want.served ? { "Content-Type": "application/json" } : table.refused;
  const headers = { ...usual, ...want.headers };
  for (const name of compared) {
    const got = (header(name) ?? "").replace("json; charset=utf-8", "json");
    const wanted = headers[name] ?? "";
    assert.ok(wanted === "*" ? got : got === wanted, `call ${number}: ${name} is ${got}, want ${wanted}`);
  }
  const body = JSON.parse(text);
  for (const [name, value] of Object.entries(want.body ?? {})) assert.deepEqual(body[name], value, name);
}

for (const [name, backend] of Object.entries(backends)) {
  for (const c of table.cases) {
    test(`${name}: ${c.name}`, { timeout: 20_000 }, async () => {
      const { DOOR, DOOR_HANGS, DOOR_KEY, DOOR_UNKNOWN } = process.env;
      let call;
      const limits = new Asking({
        door: onMachine({ closed: "http://127.0.0.1:1", hangs: DOOR_HANGS }[c.door] ?? DOOR),
        caller: async () => {
          const as = { ...call.as };
          if (as.subject) as.subject = `node ${name} ${c.name} ${as.subject}`;
          if (as.apiKey) as.apiKey = as.apiKey.replace("GOOD", DOOR_KEY).replace("UNKNOWN", DOOR_UNKNOWN);
          return call.as ? as : undefined;
        },
        refundOn: c.refund ? serverErrors : undefined,
        open: c.open, allowOrigins: c.allowOrigins, log: () => {},
      });
      for (const [i, one] of c.calls.entries()) {
        call = { ...one };
        const got = await backend(limits, call);
        await limits.ended();
        compare(i + 1, call, got);
      }
    });
  }
}

test("a caller that throws refuses the request", async () => {
  const lines = [];
  const limits = new Asking({
    door: onMachine(process.env.DOOR), open: true, log: (...line) => lines.push(line),
    caller: () => { throw new Error("broken"); },
  });
  const { status } = await backends.express(limits, {});
  assert.deepEqual([status, lines[0][1].message], [500, "broken"]);
});
