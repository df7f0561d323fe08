// Makes one call with the SDK for each line of JSON that it reads.
// internal/e2e/sdk/README.md describes the lines.
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { serialize } from "node:v8";
import { Amount, Client, CoaxError } from "../index.js";

async function carryOut(order) {
  const out = { id: order.id, outcome: "failed", code: "", attempts: [] };
  let client;
  let result;
  let failure;
  try {
    client = new Client(optionsOf(order, out.attempts));
    if (order.operation === "sign") {
      const body = Buffer.from(order.body_base64 ?? "", "base64");
      const { method = "", path = "", query = "", timestamp = "", nonce = "" } = order;
      return { ...out, outcome: "success", signature: client.sign(method, path, query, body, timestamp, nonce) };
    }
    result = await call(client, order);
    out.outcome = "success";
    out.transaction_id = result.transaction_id;
    out.replayed = result.replayed;
    out.data = wire(result);
  } catch (error) {
    failure = error;
    describe(out, error);
  }
  const attempts = out.attempts;
  out.attempts = attempts.map(({ requestId, error, ...rest }) => ({ ...rest, request_id: requestId, error: error?.message ?? "" }));
  out.shown = [client, result, failure, attempts].map(shown).join("\n");
  return out;
}

function optionsOf(order, attempts) {
  const { clock_offset: offset = 0, ...options } = order.options ?? {};
  const named = Object.entries(options).map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), value]);
  return {
    baseUrl: order.base_url,
    apiKey: order.api_key,
    apiSecret: order.api_secret,
    caCert: order.ca_cert,
    clock: () => Date.now() + offset * 1000,
    onAttempt: (attempt) => attempts.push(attempt),
    ...Object.fromEntries(named),
  };
}

function call(client, { operation, body, idempotency_key: key, arguments: given }) {
  switch (operation) {
    case "activate":
      return client.activate(body, key);
    case "renew":
      return client.renew(body, key);
    case "advance-renew":
      return client.advanceRenew(body, key);
    case "balance":
      return client.balance();
    case "plans":
      return client.plans();
    case "subscription":
      return client.subscription(given);
    case "transaction":
      return client.transaction(given);
    case "await":
      return client.awaitSettled(key, { timeout: 60 });
  }
  throw new Error(`there is no operation ${operation}`);
}

function describe(out, error) {
  out.message = error.message;
  if (!(error instanceof CoaxError)) {
    out.code = "INVALID_CONFIG";
    return;
  }
  out.outcome = error.undecided ? "pending" : "failed";
  out.code = error.code;
  out.status = error.status;
  out.class = error.name;
  out.request_id = error.requestId;
  out.undecided = error.undecided;
  out.retry_after = error.retryAfter;
  out.fields = error.fields;
  out.transaction_id = error.operation?.transaction_id;
  if (error.operation !== undefined) {
    out.data = wire(error.operation);
  } else if (error.shortfall !== undefined) {
    out.data = wire({
      wallet_balance: error.walletBalance,
      required_amount: error.requiredAmount,
      shortfall: error.shortfall,
    });
  }
}

// wire returns a result as it was on the wire, with amounts as text and the password.
function wire(value) {
  if (value instanceof Amount) {
    return value.toString();
  }
  if (Array.isArray(value)) {
    return value.map(wire);
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  const fields = { ...value };
  delete fields.replayed;
  if (value.password !== undefined) {
    fields.password = value.password;
  }
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, wire(field)]));
}

// shown prints a value in every form that Node has.
function shown(value) {
  const all = { depth: Infinity, showHidden: true, getters: true };
  const texts = [
    inspect(value),
    inspect(value, { ...all, showHidden: false }),
    inspect(value, all),
    inspect(value, { ...all, customInspect: false }),
    JSON.stringify(value, (name, field) => (typeof field === "bigint" ? String(field) : field)),
    String(value),
    String(value?.stack),
    JSON.stringify({ ...value }),
  ];
  try {
    texts.push(serialize(value).toString("latin1"));
  } catch (error) {
    texts.push(String(error)); // it has functions
  }
  return texts.join("\n");
}

// node --test runs every file of this folder, and never ends its input.
if (process.env.NODE_TEST_CONTEXT !== undefined) {
  process.exit(0);
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await carryOut(JSON.parse(line)))}\n`);
}
