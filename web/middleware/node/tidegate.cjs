"use strict";

// Applies Tidegate's decisions in backends in Node.js: Express, Fastify and Lambda
// handlers. Limits reads the decision of Tidegate's authorizer; Asking asks for one, where
// another authorizer runs, or none. Copy this file, and tidegate.d.cts for TypeScript; it
// needs Node.js 20 and no package. docs/backends.md and docs/direct.md describe its use. It
// equals the Go package web/middleware, and both pass the same tables of cases.
//
// A backend with Limits must be reachable only through API Gateway, since direct clients
// could claim any decision. A request without a decision gets 500 and never reaches a
// handler.

const titles = { 401: "Unauthorized", 429: "Too Many Requests", 500: "Internal Server Error" };
const texts = [
  "keyId", "keyName", "plan", "route", "rateLimit", "rateLimitPolicy", "wait", "message", "problemType",
  "reference", "settlement",
];
const numbers = ["policyVersion", "keyVersion", "limit", "remaining", "reset", "retryAfter"];
const flags = ["atOnce", "shadowDenied", "degraded"];

// webAdapter is the source behind the AWS Lambda Web Adapter. It passes API Gateway's
// request context as JSON in the header X-Amzn-Request-Context, which it overwrites.
// Behind anything else a client could send that header.
function webAdapter(request) {
  const values = valuesOf(request, "X-Amzn-Request-Context");
  if (values.length !== 1) return undefined;
  return authorizer(parsed(values[0]).authorizer);
}

// ofEvent returns the source behind an adapter that keeps the event. find returns the
// event of a request, from what the adapter wrote and never from a header.
function ofEvent(find) {
  return (request) => authorizer(find(request)?.requestContext?.authorizer);
}

// parsed throws an error without the text, which the error of JSON.parse quotes.
function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    throw new Error("the authorizer context is not JSON");
  }
}

// headers returns a source that reads the mapped keys of the context, each from a header of
// its name behind the prefix. API Gateway's parameter mapping must overwrite each of them,
// and have denied among them. Any other header with the prefix comes from the client and is
// not read.
function headers(prefix, ...mapped) {
  return (request) => {
    const context = {};
    for (const key of mapped) {
      const values = valuesOf(request, prefix + key);
      if (values.length > 1) return undefined;
      if (values.length === 1 && values[0] !== "") context[key] = values[0];
    }
    return context;
  };
}

// authorizer returns the context within requestContext.authorizer of an event. HTTP APIs
// with payload format 2.0 have it under lambda, all others directly.
function authorizer(value) {
  const inner = value?.lambda;
  return typeof inner === "object" && inner !== null ? inner : value;
}

// valuesOf returns every value of a header, for a request of Express or Fastify.
function valuesOf(request, name) {
  name = name.toLowerCase();
  const { headers = {}, rawHeaders = [] } = request.raw ?? request;
  const raw = rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1].toLowerCase() === name);
  const values = raw.length > 0 ? raw : [headers[name] ?? []].flat();
  return values.map(utf8);
}

// utf8 decodes a header's bytes, which Node.js gives as Latin-1.
function utf8(text) {
  if (/[^\0-\xff]/.test(text)) return text;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "latin1"));
  } catch {
    return text;
  }
}

// settled are the calls that are settled, or being so.
const settled = new WeakSet();

// Call is the decision on a request, with the keys of the context in docs/backends.md. A
// missing text is "", a missing number 0. violatedPolicies is an array.
class Call {
  #settler;

  constructor(context, settler) {
    this.denied = flag(context, "denied");
    for (const key of texts) this[key] = text(context, key);
    for (const key of numbers) this[key] = number(context, key);
    for (const key of flags) this[key] = text(context, key) === "true";
    this.violatedPolicies = list(text(context, "violatedPolicies"));
    this.#settler = settler;
    Object.freeze(this);
  }

  // settle charges the request's actual cost: a number, or an object of a number for each
  // unit. It refunds the unused part of what was taken, and charges any cost above it. It
  // does nothing without a settlement.
  async settle(cost) {
    if (this.settlement === "") return { ...nothing };
    if (!this.#settler) throw new Error("tidegate: no settler");
    settled.add(this);
    return this.#settler.settle(this.settlement, cost);
  }
}

// text converts a value to a string, as REST APIs do with every value.
function text(context, key) {
  const value = Object.hasOwn(context, key) ? context[key] : undefined;
  return ["string", "number", "boolean"].includes(typeof value) ? String(value) : "";
}

// number returns a value as an integer; 0 if it is not one.
function number(context, key) {
  const value = text(context, key).trim();
  return /^[+-]?\d+$/.test(value) ? Number(value) : 0;
}

function flag(context, key) {
  const value = text(context, key);
  if (value !== "true" && value !== "false") {
    throw new Error(`${key} is neither true nor false in the authorizer context`);
  }
  return value === "true";
}

function list(json) {
  const value = json === "" ? [] : parsed(json);
  if (!Array.isArray(value) || value.some((item) => typeof item !== "string")) {
    throw new Error("violatedPolicies is not an array of strings");
  }
  return value;
}

// Limits passes admitted calls to handlers. Options:
//
//   source        finds the context of a request; Lambda handlers need none
//   settler       { url, token } of Settler, for settle; optional
//   allowOrigins  origins whose scripts may read a 429; undefined: any, []: none
//   log           function that gets a message and the cause for each request without a
//                 decision
class Limits {
  #source;
  #settler;
  #origins;
  #log;

  constructor({ source, settler, allowOrigins, log = console.error } = {}) {
    this.#source = source ?? (() => undefined);
    this.#settler = settler && !(settler instanceof Settler) ? new Settler(settler) : settler;
    this.#origins = allowOrigins;
    this.#log = log;
  }

  // express is a middleware: handlers find the decision in request.tidegate.
  express = (request, response, next) => {
    const { call, fields, refusal } = this.#admit(() => this.#source(request));
    for (const [name, value] of fields) response.setHeader(name, value);
    if (!refusal) {
      request.tidegate = call;
      next();
      return;
    }
    this.#write(refusal, request.headers.origin, (name) => response.getHeader(name),
      (name, value) => response.setHeader(name, value));
    response.statusCode = refusal.status;
    response.end(bodyFor(request.method, refusal.body));
  };

  // fastify is an onRequest hook: handlers find the decision in request.tidegate. The fields
  // are set on the server's response, so that a hijacked reply has them too.
  fastify = (request, reply, done) => {
    const { call, fields, refusal } = this.#admit(() => this.#source(request));
    for (const [name, value] of fields) reply.raw.setHeader(name, value);
    if (!refusal) {
      request.tidegate = call;
      done();
      return;
    }
    this.#write(refusal, request.headers.origin, (name) => reply.getHeader(name),
      (name, value) => reply.header(name, value));
    reply.code(refusal.status).send(refusal.body);
  };

  // lambda wraps an async handler of API Gateway's events, which gets the decision behind its
  // other arguments: event and context, or event, stream and context for
  // awslambda.streamifyResponse. A streamed response gets no fields by itself. An event of
  // another source, such as a queue, is an error, so that the source keeps it: call the
  // handler itself for those.
  lambda(handler) {
    return async (event, ...rest) => {
      const { method } = ofLambda(event);
      const { stream, others } = argumentsOf(rest);
      const { call, fields, refusal } = this.#admit(() => ofEvent(() => event)());
      if (!refusal) {
        const answer = await handler(event, ...others, call);
        return stream ? answer : withFields(answer, fields, event);
      }
      const headers = new Map(fields);
      const sent = Object.entries(event?.headers ?? {});
      const origin = sent.find(([name]) => name.toLowerCase() === "origin")?.[1];
      this.#write(refusal, origin, (name) => headers.get(name), (name, value) => headers.set(name, value));
      const body = bodyFor(method, refusal.body);
      return send(stream, { statusCode: refusal.status, headers: Object.fromEntries(headers), body });
    };
  }

  // admit returns the admitted call and its fields, or the response that refuses it.
  #admit(source) {
    let call;
    try {
      call = new Call(source() ?? {}, this.#settler);
    } catch (cause) {
      this.#log("tidegate: authorizer decision missing, request refused", cause);
      const detail = "The authorizer's decision is missing.";
      return { fields: [], refusal: problem({ status: 500, detail }) };
    }
    const fields = [["RateLimit", call.rateLimit], ["RateLimit-Policy", call.rateLimitPolicy]]
      .filter(([, value]) => value !== "");
    return call.denied ? { fields, refusal: refusalOf(call) } : { fields, call };
  }

  #write({ headers, readable }, origin, get, set) {
    for (const [name, value] of headers) set(name, value);
    if (readable) expose(this.#origins, origin, get, set);
  }
}

// expose lets scripts of an origin read the response. CORS headers that are already set
// stay.
function expose(origins, origin, get, set) {
  const allow = "Access-Control-Allow-Origin";
  if (get(allow) || origins?.length === 0) return;
  if (origins) {
    set("Vary", [get("Vary") ?? [], "Origin"].flat().join(", "));
    if (!origins.includes(origin)) return;
  }
  set(allow, origins ? origin : "*");
  if (origins) set("Access-Control-Allow-Credentials", "true");
  set("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy");
}

// refusalOf returns the response to a call over a limit. The response to a call that can
// never pass has no Retry-After.
function refusalOf(call) {
  const refusal = problem({
    type: call.problemType, status: 429, detail: call.message, violated: call.violatedPolicies,
    wait: call.wait, reference: call.reference,
  });
  if (call.retryAfter > 0) refusal.headers.push(["Retry-After", String(call.retryAfter)]);
  return { ...refusal, readable: true };
}

// problem returns a response in the form of RFC 9457. Clients made for API Gateway read
// message, not detail.
function problem({ type = "", status, detail, violated = [], wait = "", reference = "" }) {
  const title = titles[status];
  const body = { type: type || "about:blank", title, status, detail, message: detail };
  if (violated.length > 0) body["violated-policies"] = violated;
  if (wait !== "") body["retry-after"] = wait;
  if (reference !== "") body.reference = reference;
  return {
    status,
    headers: [["Content-Type", "application/problem+json"], ["Cache-Control", "no-store"]],
    body: JSON.stringify(body) + "\n",
  };
}

// bodyFor returns the body of a refusal, which an answer to HEAD has not.
function bodyFor(method, body) {
  return method === "HEAD" ? "" : body;
}

// argumentsOf returns what a Lambda handler gets between the event and the decision, and the
// stream among it, if there is one. Without a stream Lambda's callback follows the context.
function argumentsOf([first, second]) {
  const streamed = typeof first?.write === "function";
  return streamed ? { stream: first, others: [first, second] } : { others: [first] };
}

// send answers a Lambda: by the stream if there is one.
function send(stream, answer) {
  if (!stream) return answer;
  const { body, ...start } = answer;
  const response = globalThis.awslambda.HttpResponseStream.from(stream, start);
  response.write(body);
  response.end();
  return undefined;
}

// withFields adds the fields that a handler's response does not set itself. Payload
// format 2.0 treats a response without statusCode as the body of a 200.
function withFields(answer, fields, event) {
  if (answer === undefined || answer === null) return answer;
  if (event.version === "2.0" && answer.statusCode === undefined) {
    const body = typeof answer === "string" ? answer : JSON.stringify(answer);
    answer = { statusCode: 200, headers: { "Content-Type": "application/json" }, body };
  }
  const own = Object.keys({ ...answer.headers, ...answer.multiValueHeaders });
  const set = new Set(own.map((name) => name.toLowerCase()));
  const added = fields.filter(([name]) => !set.has(name.toLowerCase()));
  return { ...answer, headers: { ...answer.headers, ...Object.fromEntries(added) } };
}

// nothing is the result of a settlement that moves nothing. reserved and actual are numbers,
// or objects of a number for each unit, as the cost of the route is.
const nothing = { reserved: 0, actual: 0, owed: 0, partial: false };

// Bounds of one settlement with its retries, in milliseconds.
const settleTimeout = 5_000; // of one attempt
const settleDeadline = 15_000; // of all attempts and the pauses between them
const settleAttempts = 5;
const settlePause = 200; // before the second attempt; doubled before each one after it
const maxRetryAfter = 5_000; // a longer Retry-After is shortened to it

// SettleError is a refused settlement, with the status and detail of the response.
class SettleError extends Error {
  constructor(status, detail, retryAfter) {
    super(`tidegate: settle: ${status}: ${detail}`);
    this.name = "SettleError";
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter; // milliseconds
  }

  // temporary reports whether another attempt may succeed.
  get temporary() {
    return this.status === 429 || this.status >= 500;
  }
}

// Settler settles calls over Tidegate's JSON API. url is the dashboard's address, token a
// machine token of scope settle. fetch replaces the global one. With a door in place of them
// it settles by direct calls.
class Settler {
  #door;
  #url;
  #token;
  #fetch;

  constructor({ door, url = "", token = "", fetch = (...request) => globalThis.fetch(...request) }) {
    if (!door && !/^https?:\/\/[!-~]+$/.test(url.trim())) {
      throw new Error("tidegate: url of Settler is not of the form https://HOST/PATH");
    }
    if (!door && !/^[!-~]+$/.test(token.trim())) {
      throw new Error("tidegate: token of Settler is empty, or has characters that no token has");
    }
    this.#door = door;
    this.#url = `${url.trim().replace(/\/$/, "")}/api/v1/settlements`;
    this.#token = token.trim();
    this.#fetch = fetch;
  }

  // settle retries after a connection error, a 429 or a 5xx, with random pauses. Retries
  // are safe, since a call settles once. A 409 is success if an earlier attempt of
  // this call may have settled; the result of that settlement is unknown. A cost that is not
  // whole is an error at once.
  async settle(settlement, cost) {
    checkCost(cost);
    const end = Date.now() + settleDeadline;
    let mayBeSettled = false;
    for (let attempt = 1; ; attempt++) {
      let failure;
      try {
        return await this.#try(settlement, cost, Math.min(settleTimeout, end - Date.now()));
      } catch (cause) {
        failure = cause;
      }
      const answered = failure instanceof SettleError;
      if (answered && failure.status === 409 && mayBeSettled) return { ...nothing, actual: cost };
      if ((answered && !failure.temporary) || attempt === settleAttempts) throw failure;
      mayBeSettled ||= arrived(failure);
      const pause = pauseBefore(attempt + 1, failure);
      if (Date.now() + pause > end) throw failure;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  async #try(settlement, cost, timeout) {
    if (this.#door) {
      const body = { tidegate: "settle", settlement, cost };
      return { ...nothing, ...(await this.#door("settle", body, timeout)) };
    }
    const controller = new AbortController();
    const late = new Error(`tidegate: settle: no response within ${timeout} ms`);
    const timer = setTimeout(() => controller.abort(late), timeout);
    try {
      const response = await this.#fetch(this.#url, {
        method: "POST", redirect: "manual", signal: controller.signal,
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.#token}` },
        body: JSON.stringify({ settlement, cost }),
      });
      const body = await response.text();
      if (response.status === 200) return { ...nothing, ...JSON.parse(body) };
      throw new SettleError(response.status, detailOf(body), retryAfter(response.headers));
    } finally {
      clearTimeout(timer);
    }
  }
}

// checkCost throws an error unless a cost is a whole number from 0, or an object of them.
function checkCost(cost) {
  const units = typeof cost === "object" && cost !== null && !Array.isArray(cost) ? cost : { cost };
  for (const [unit, number] of Object.entries(units)) {
    if (!Number.isSafeInteger(number) || number < 0) {
      const kind = typeof number;
      const what = { number: String(number), undefined: "undefined", object: "an object" }[kind] ?? `a ${kind}`;
      throw new Error(`tidegate: settle: ${unit} is ${what}: must be a whole number from 0, of type number`);
    }
  }
}

// Mistake is a mistake in a direct call, which another attempt does not mend.
class Mistake extends Error {
  constructor(text) {
    super(`tidegate: direct call: ${text}`);
    this.name = "Mistake";
  }
}

const askTimeout = 2_000; // milliseconds, of one check

// onMachine returns a door to check -listen, at a URL such as http://127.0.0.1:2773.
function onMachine(url) {
  return async (kind, call, timeout) => {
    const response = await fetch(`${url.replace(/\/$/, "")}/${kind}`, {
      method: "POST", redirect: "manual", signal: AbortSignal.timeout(timeout),
      headers: { "Content-Type": "application/json" }, body: JSON.stringify(call),
    });
    const answer = await response.json();
    if (response.status === 200) return answer;
    if (response.status === 400 && kind === "check") throw new Mistake(answer.error);
    throw new SettleError(response.status, answer.error, 0);
  };
}

// byInvoke returns a door to the check function on Lambda. client is a Lambda of
// @aws-sdk/client-lambda.
function byInvoke(client, functionName) {
  return async (kind, call, timeout) => {
    const request = { FunctionName: functionName, Payload: JSON.stringify(call) };
    const { FunctionError: failed, Payload: payload } = await client.invoke(
      request, { abortSignal: AbortSignal.timeout(timeout) });
    const answer = JSON.parse(Buffer.from(payload));
    if (!failed) return answer;
    const { errorType, errorMessage } = answer;
    if (errorType === "Mistake" && kind === "check") throw new Mistake(errorMessage);
    throw new SettleError({ Mistake: 400, Conflict: 409 }[errorType] ?? 503, errorMessage, 0);
  };
}

// check asks about a call, with the members of docs/direct.md, and takes from its limits if
// it is allowed. It is not tried again, since a second attempt could take twice. It throws
// a Mistake, or another error if the door cannot be reached.
async function check(door, call) {
  try {
    JSON.stringify(call);
  } catch (cause) {
    throw new Mistake(`the call cannot be sent: ${cause.message}`); // such as a bigint as cost
  }
  const answer = await door("check", { tidegate: "check", ...call }, askTimeout);
  if (typeof answer?.status !== "number" || answer.allowed !== (answer.status === 200)) {
    throw new Error("tidegate: the answer is not one of the check function");
  }
  return { headers: {}, body: "", context: {}, ...answer };
}

const unavailable = {
  allowed: false,
  status: 429,
  headers: { "Retry-After": "1", "Content-Type": "application/problem+json", "Cache-Control": "no-store" },
  body: problem({
    type: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", status: 429,
    detail: "The limits cannot be checked right now. Retry after 1 second.", wait: "1",
  }).body,
};

// Asking asks a door about every request, where no authorizer of Tidegate has decided. It
// adds the RateLimit fields, answers 401, 403 or 429 in place of the handler, and gives
// handlers the decision as Limits does. Options:
//
//   door          onMachine(url) or byInvoke(client, functionName)
//   caller        function of the request, or of the event, which says who calls: an object
//                 such as { subject, plan } or { apiKey }, from what the framework has
//                 verified; without either of them the request is answered 401. method, path
//                 and address are the request's unless it gives them
//   refundOn      function of the status, such as serverErrors, which says whether a request
//                 gives back what it took
//   open          lets requests pass that cannot be checked now, but never one with an
//                 apiKey, which nobody has verified; otherwise they are answered 429
//   challenge     the WWW-Authenticate of a 401, by default Bearer; an MCP server names its
//                 metadata in it: docs/attach.md
//   allowOrigins  as of Limits
//   log           function that gets a message and the cause of what fails
class Asking {
  #options;
  #settler;
  #open = new Set(); // of promises, one for each request that has not ended

  constructor(options) {
    this.#options = { log: console.error, challenge: "Bearer", ...options };
    this.#settler = new Settler({ door: options.door });
  }

  // express is a middleware: handlers find the decision in request.tidegate. Put it behind
  // the one that logs in, and set "trust proxy" behind a proxy.
  express = async (request, response, next) => {
    const path = request.originalUrl.split("?")[0];
    const found = { method: request.method, path, address: request.ip };
    const { call, answer } = await this.#ask(request, found);
    this.#write(answer, request.headers.origin, response);
    if (!call) {
      response.statusCode = answer.status;
      response.end(bodyFor(request.method, answer.body));
      return;
    }
    request.tidegate = call;
    this.#watch(response, call);
    next();
  };

  // fastify is a hook, for onRequest or preHandler: handlers find the decision in
  // request.tidegate. Put it behind the one that logs in, and set trustProxy behind a proxy.
  fastify = async (request, reply) => {
    const path = request.raw.url.split("?")[0];
    const found = { method: request.method, path, address: request.ip };
    const { call, answer } = await this.#ask(request, found);
    const getHeader = (name) => reply.getHeader(name);
    const setHeader = (name, value) => (call ? reply.raw.setHeader(name, value) : reply.header(name, value));
    this.#write(answer, request.headers.origin, { getHeader, setHeader });
    if (!call) return reply.code(answer.status).send(answer.body);
    request.tidegate = call;
    this.#watch(reply.raw, call);
    return undefined;
  };

  // lambda wraps an async handler of events: of a function URL, an API, a WebSocket's
  // message or a load balancer. Streams and other events are treated as Limits does.
  lambda(handler) {
    return async (event, ...rest) => {
      const found = ofLambda(event);
      const { stream, others } = argumentsOf(rest);
      const { call, answer } = await this.#ask(event, found);
      const headers = new Map();
      const sent = Object.entries(event.headers ?? {});
      const origin = sent.find(([name]) => name.toLowerCase() === "origin")?.[1];
      const setHeader = (name, value) => headers.set(name, value);
      this.#write(answer, origin, { getHeader: (name) => headers.get(name), setHeader });
      if (!call) {
        const body = bodyFor(found.method, answer.body);
        return send(stream, { statusCode: answer.status, headers: Object.fromEntries(headers), body });
      }
      let status = 500; // if the handler throws
      try {
        const result = await handler(event, ...others, call);
        status = result?.statusCode ?? 200;
        return stream ? result : withFields(result, [...headers], event);
      } finally {
        await this.#end(call, status);
      }
    };
  }

  // ended resolves when all answered requests have ended their calls: await it after the
  // server's close.
  async ended() {
    await Promise.all(this.#open);
  }

  // ask returns the admitted call, and the answer that admits or refuses it.
  async #ask(request, found) {
    const { door, caller, refundOn, open, challenge, log } = this.#options;
    let who;
    try {
      who = { ...(await caller(request)) };
      if (!who.subject && !who.apiKey) return { answer: unauthorized(challenge) };
      const members = { ...found, ...who, ...(refundOn && { settle: true }) };
      const answer = await check(door, members);
      return { answer, call: answer.allowed ? new Call(answer.context, this.#settler) : undefined };
    } catch (cause) {
      if (!who || cause instanceof Mistake) {
        log("tidegate: request refused: the check is asked wrongly", cause);
        const detail = "The limits of this request cannot be checked.";
        return { answer: plain(problem({ status: 500, detail })) };
      }
      if (open && !who.apiKey) {
        log("tidegate: request passes unchecked", cause);
        return { answer: { headers: {} }, call: new Call({ denied: false, degraded: true }, this.#settler) };
      }
      log("tidegate: request denied: it cannot be checked", cause);
      return { answer: unavailable };
    }
  }

  #write({ headers, status }, origin, response) {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (status === undefined || status === 200) return;
    expose(this.#options.allowOrigins, origin, (name) => response.getHeader(name),
      (name, value) => response.setHeader(name, value));
  }

  // watch ends a call when its response has been sent, or its client is gone.
  #watch(response, call) {
    const ended = new Promise((done) => response.once("close", done))
      .then(() => this.#end(call, response.statusCode))
      .finally(() => this.#open.delete(ended));
    this.#open.add(ended);
  }

  // end gives back what a failed request took, and the place of a limit at once.
  async #end(call, status) {
    const refund = this.#options.refundOn?.(status);
    if (call.settlement === "" || settled.has(call) || !(refund || call.atOnce)) return;
    try {
      await call.settle(refund ? 0 : {});
    } catch (cause) {
      this.#options.log("tidegate: the cost of a call stays charged", cause);
    }
  }
}

// serverErrors is a refundOn for requests that the backend failed to serve: 5xx.
const serverErrors = (status) => status >= 500;

function plain({ status, headers, body }) {
  return { status, headers: Object.fromEntries(headers), body };
}

function unauthorized(challenge) {
  const answer = plain(problem({ status: 401, detail: "This request has no caller." }));
  answer.headers["WWW-Authenticate"] = challenge;
  return answer;
}

// ofLambda returns method, path and address of an event. A WebSocket's message has the
// method MESSAGE, and its route key as path. An event that is no request is an error: an
// answer would tell its source that it is done.
function ofLambda(event) {
  if (typeof event?.requestContext !== "object" || event.requestContext === null) {
    throw new TypeError("tidegate: the event is no request: it has no requestContext. Call the handler " +
      "itself for events of queues, schedules and other sources");
  }
  const { http, identity, eventType, routeKey } = event.requestContext;
  const address = http?.sourceIp ?? identity?.sourceIp;
  if (eventType) return { method: eventType, path: `/${routeKey}`, address };
  return { method: http?.method ?? event.httpMethod, path: event.rawPath ?? event.path, address };
}

const neverConnected = [
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT",
];

// arrived reports whether a failed attempt may have settled: it had a connection and was
// not throttled.
function arrived(failure) {
  if (failure instanceof SettleError) return failure.status !== 429;
  return !neverConnected.includes(failure.cause?.code);
}

// pauseBefore returns the pause before an attempt, from the second on: 50 to 100 % of a
// pause that doubles, plus the response's Retry-After of at most maxRetryAfter.
function pauseBefore(attempt, failure) {
  const pause = settlePause * 2 ** (attempt - 2);
  return pause - Math.random() * (pause / 2) + Math.min(failure.retryAfter ?? 0, maxRetryAfter);
}

// detailOf returns the detail of a problem and its errors; "" for any other response.
function detailOf(body) {
  try {
    const { detail = "", errors = [] } = JSON.parse(body);
    return [detail, ...errors.map(({ location, message }) => `${location} ${message}.`)].join(" ");
  } catch {
    return "";
  }
}

// retryAfter parses Retry-After in both of its forms; 0 for none.
function retryAfter(headers) {
  const value = headers.get("Retry-After") ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  return value.endsWith(" GMT") ? Math.max(Date.parse(value) - Date.now(), 0) || 0 : 0;
}

module.exports = {
  Limits, Asking, Call, Settler, SettleError, Mistake,
  webAdapter, ofEvent, headers, onMachine, byInvoke, check, serverErrors,
};
