// Types of tidegate.cjs. docs/backends.md and docs/direct.md describe its use.

/** A cost: a number, or a number for each unit. */
export type Cost = number | { [unit: string]: number };

/** The decision on a request. A missing text is "", a missing number 0. */
export declare class Call {
  private constructor();
  readonly denied: boolean;
  readonly keyId: string;
  readonly keyName: string;
  readonly plan: string;
  readonly route: string;
  readonly rateLimit: string;
  readonly rateLimitPolicy: string;
  readonly wait: string;
  readonly message: string;
  readonly problemType: string;
  readonly reference: string;
  readonly settlement: string;
  readonly policyVersion: number;
  readonly keyVersion: number;
  readonly limit: number;
  readonly remaining: number;
  readonly reset: number;
  readonly retryAfter: number;
  readonly atOnce: boolean;
  readonly shadowDenied: boolean;
  readonly degraded: boolean;
  readonly violatedPolicies: readonly string[];
  /** Charges the request's actual cost. It does nothing on a route that does not settle. */
  settle(cost: Cost): Promise<Settlement>;
}

export interface Settlement {
  reserved: Cost;
  actual: Cost;
  owed: number;
  partial: boolean;
}

export declare class Settler {
  constructor(options: { url: string; token: string; fetch?: typeof fetch } | { door: Door });
  settle(settlement: string, cost: Cost): Promise<Settlement>;
}

/** A refused settlement. */
export declare class SettleError extends Error {
  readonly status: number;
  readonly detail: string;
  readonly temporary: boolean;
}

/** A mistake in a direct call, which another attempt does not mend. */
export declare class Mistake extends Error {}

type Source = (request: any) => object | undefined;
type Log = (message: string, cause: unknown) => void;
type Awaitable<T> = T | Promise<T>;
type Next = (error?: unknown) => void;

/** Reads the decision of Tidegate's authorizer. */
export declare class Limits {
  constructor(options?: {
    source?: Source;
    settler?: Settler | { url: string; token: string };
    allowOrigins?: readonly string[];
    log?: Log;
  });
  express: (request: any, response: any, next: Next) => void;
  fastify: (request: any, reply: any, done: Next) => void;
  lambda: WrapLambda;
}

interface WrapLambda {
  <Event, Context, Result>(
    handler: (event: Event, context: Context, call: Call) => Promise<Result>,
  ): (event: Event, context: Context) => Promise<Result>;
  /** For awslambda.streamifyResponse. */
  <Event, Stream, Context>(
    handler: (event: Event, stream: Stream, context: Context, call: Call) => Promise<void>,
  ): (event: Event, stream: Stream, context: Context) => Promise<void>;
}

export declare const webAdapter: Source;
export declare function ofEvent(find: (request: any) => any): Source;
export declare function headers(prefix: string, ...mapped: string[]): Source;

/** The members of a direct call. It has either subject or apiKey. */
export interface DirectCall {
  subject?: string;
  issuer?: string;
  plan?: string;
  group?: string;
  apiKey?: string;
  method?: string;
  path?: string;
  api?: string;
  stage?: string;
  address?: string;
  cost?: Cost;
  settle?: boolean;
}

/** The answer to a direct call. */
export interface Answer {
  allowed: boolean;
  status: number;
  headers: { [name: string]: string };
  body: string;
  context: { [key: string]: string | number | boolean };
}

/** Makes direct calls. */
export type Door = (kind: "check" | "settle", call: object, timeout: number) => Promise<any>;

/** A door to check -listen, at a URL such as http://127.0.0.1:2773. */
export declare function onMachine(url: string): Door;

/** A door to the check function. client is a Lambda of @aws-sdk/client-lambda. */
export declare function byInvoke(
  client: { invoke(request: any, options?: any): Promise<{ FunctionError?: string; Payload?: Uint8Array }> },
  functionName: string,
): Door;

/** Asks about a call, and takes from its limits if it is allowed. */
export declare function check(door: Door, call: DirectCall): Promise<Answer>;

/** A refundOn for requests that the backend failed to serve: 5xx. */
export declare function serverErrors(status: number): boolean;

/** Asks a door about every request. */
export declare class Asking<Request = any> {
  constructor(options: {
    door: Door;
    caller: (request: Request) => Awaitable<DirectCall | null | undefined>;
    refundOn?: (status: number) => boolean;
    open?: boolean;
    challenge?: string;
    allowOrigins?: readonly string[];
    log?: Log;
  });
  express: (request: any, response: any, next: Next) => Promise<void>;
  fastify: (request: any, reply: any) => Promise<unknown>;
  lambda: WrapLambda;
  /** Resolves when all answered requests have ended their calls. */
  ended(): Promise<void>;
}

declare global {
  namespace Express {
    interface Request {
      tidegate: Call;
    }
  }
}
