// Uses every part of the types: tsc --noEmit.

import express = require("express");
import { Lambda } from "@aws-sdk/client-lambda";
import {
  Asking, Call, Limits, Settler, SettleError, Mistake, byInvoke, check, headers, ofEvent, onMachine, serverErrors,
  webAdapter,
} from "./tidegate.cjs";

const door = byInvoke(new Lambda({}), "tidegate-prod-check");
const asking = new Asking<express.Request>({
  door,
  caller: async (request) => ({ subject: request.get("x-user") ?? "", plan: "pro", cost: { input: 500 } }),
  refundOn: serverErrors,
  open: true,
  allowOrigins: ["https://app.example"],
  log: (message, cause) => console.log(message, cause),
});
const app = express();
app.use(asking.express);
app.use(new Limits({ source: webAdapter, settler: { url: "https://tidegate.example", token: "t" } }).express);
app.get("/", async (request, response) => {
  const settled = await request.tidegate.settle({ input: 412 });
  response.json({ owed: settled.owed, plan: request.tidegate.plan.toUpperCase() });
});

export const handler = new Asking<{ user: string }>({
  door: onMachine("http://127.0.0.1:2773"), caller: (event) => (event.user ? { subject: event.user } : null),
}).lambda(async (event: { user: string }, _context: unknown, call) => ({ statusCode: call.limit, body: event.user }));

export const streamed = new Limits().lambda(
  async (event: { body: string }, stream: NodeJS.WritableStream, _context: unknown, call: Call) => {
    stream.end(event.body + call.rateLimit);
  },
);

export async function ask(): Promise<number> {
  await new Settler({ door }).settle("tgr_x", 0);
  try {
    const answer = await check(door, { apiKey: "tg_x" });
    return answer.allowed ? 200 : Number(answer.headers["Retry-After"]);
  } catch (cause) {
    if (cause instanceof Mistake || (cause instanceof SettleError && cause.temporary)) return 0;
    throw cause;
  }
}

// @ts-expect-error A caller has a subject, not a user.
new Asking({ door, caller: () => ({ user: "a" }) });
// @ts-expect-error A limit is a number.
((call: import("./tidegate.cjs").Call): string => call.limit);
export const sources = [headers("X-Tidegate-", "denied"), ofEvent((request) => request.event)];
