// A Lambda authorizer made of common Node.js libraries: ioredis, rate-limiter-flexible
// and jose. It looks up the API key, or verifies the token, and takes from two limits at
// once.

import { createHmac } from "node:crypto";
import { Redis } from "ioredis";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { run } from "./runtime.mjs";

const { REDIS_URL, KEY_PEPPER, JWT_ISSUER, JWT_AUDIENCE, JWT_JWKS_URL } = process.env;

const redis = new Redis(REDIS_URL, { enableReadyCheck: false });
const limiters = [["10s", 100, 10], ["10m", 1000, 600]].map(([name, points, duration]) => (
  new RateLimiterRedis({ storeClient: redis, keyPrefix: `node:${name}`, points, duration })));
const keys = JWT_JWKS_URL && createRemoteJWKSet(new URL(JWT_JWKS_URL));

// caller returns the caller's id. It treats every error as a bad credential.
async function caller(headers) {
  try {
    if (keys) {
      const token = headers.authorization.replace(/^Bearer /, "");
      const { payload } = await jwtVerify(token, keys, { issuer: JWT_ISSUER, audience: JWT_AUDIENCE });
      return payload.sub;
    }
    const hash = createHmac("sha256", KEY_PEPPER).update(headers["x-api-key"]).digest("hex");
    const record = await redis.hgetall(`peers:key:${hash}`);
    if (record.plan === "pro") return record.id;
  } catch { /* treated as an unknown key */ }
  throw new Error("Unauthorized");
}

// take takes one call from every limit and returns the result of the tightest limit.
async function take(id) {
  const taken = await Promise.all(limiters.map((limiter) => limiter.consume(id).catch((over) => {
    if (over instanceof Error) throw over;
    return { ...over, denied: true };
  })));
  return taken.find(({ denied }) => denied) ??
    taken.reduce((least, one) => (one.remainingPoints < least.remainingPoints ? one : least));
}

run(async (event) => {
  const id = await caller(event.headers);
  const { denied = false, remainingPoints, msBeforeNext } = await take(id);
  return {
    principalId: id,
    policyDocument: {
      Version: "2012-10-17",
      Statement: [{
        Action: "execute-api:Invoke", Effect: denied ? "Deny" : "Allow", Resource: event.methodArn,
      }],
    },
    context: { remaining: remainingPoints, reset: Math.ceil(msBeforeNext / 1000) },
  };
});
