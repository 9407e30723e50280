// A client of Lambda's Runtime API, as in the Node.js runtime: one call at a time, over
// one connection.

import { Agent, request } from "node:http";

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function ask(method, path, body = "") {
  return new Promise((done, failed) => {
    const headers = { "Content-Length": Buffer.byteLength(body) };
    const options = { host, port, agent, method, headers, path: `/2018-06-01/runtime/invocation/${path}` };
    request(options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => done({ id: response.headers["lambda-runtime-aws-request-id"], text }));
    }).on("error", failed).end(body);
  });
}

export async function run(handler) {
  for (;;) {
    const { id, text } = await ask("GET", "next");
    try {
      await ask("POST", `${id}/response`, JSON.stringify(await handler(JSON.parse(text))));
    } catch (cause) {
      await ask("POST", `${id}/error`, JSON.stringify({ errorMessage: cause.message }));
    }
  }
}
