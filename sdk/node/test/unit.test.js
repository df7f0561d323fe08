// What the stories of ../../stories do not reach.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { inspect } from "node:util";
import { serialize } from "node:v8";
import * as coax from "../index.js";
import { errorOf as failureOf } from "../lib/errors.js";
import { Exchange } from "../lib/exchange.js";
import { decode } from "../lib/json.js";
import { readSettings } from "../lib/settings.js";

const { Amount, Client, CoaxError, Code } = coax;
const SECRET = "cxs_published_test_secret_never_issued_0001";
const KEY = "unit-test-0001";
const BODY = { subscriber_id: "100001", plan_id: "BASIC-1" };
const BEHAVIOUR = readFileSync(new URL("../../BEHAVIOUR.md", import.meta.url), "utf8");
const folder = mkdtempSync(join(tmpdir(), "coax-node-"));
const servers = [];
after(() => {
  rmSync(folder, { recursive: true });
  for (const server of servers) {
    server.close();
    server.closeAllConnections?.();
  }
});

function options(more) {
  return { baseUrl: "http://127.0.0.1:9/api/v1", apiKey: "cxk_test", apiSecret: SECRET, pause: 0.001, maxPause: 0.002, ...more };
}

// serve starts a service on loopback that answers with handle, and returns a client of it.
async function serve(handle, more) {
  return new Client(options({ baseUrl: `http://${await listen(http.createServer(handle))}/api/v1`, ...more }));
}

async function listen(server) {
  servers.push(server);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `127.0.0.1:${server.address().port}`;
}

function send(response, status, answer) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
}

async function errorOf(promise) {
  return promise.then(
    () => assert.fail("it succeeded"),
    (error) => error,
  );
}

// printed returns a value in every form that Node has.
function printed(value) {
  const all = { depth: Infinity, showHidden: true, getters: true };
  return [
    inspect(value),
    inspect(value, all),
    inspect(value, { ...all, customInspect: false }),
    inspect({ nested: [value] }, all),
    JSON.stringify(value, (name, field) => (typeof field === "bigint" ? String(field) : field)),
    String(value),
    String(value.stack),
    JSON.stringify(Object.getOwnPropertyNames(value).map((name) => String(value[name]))),
  ].join("\n");
}

test("amounts are exact", () => {
  for (const [text, paise, want] of [
    ["199.00", 19900n, "199.00"],
    ["0.5", 50n, "0.50"],
    ["7", 700n, "7.00"],
    ["-0.07", -7n, "-0.07"],
    ["-0.00", 0n, "0.00"],
    ["90071992547409.93", 9007199254740993n, "90071992547409.93"],
  ]) {
    const amount = Amount.parse(text);
    assert.equal(amount.paise, paise);
    assert.equal(String(amount), want);
    assert.equal(`${amount}`, want);
    assert.equal(JSON.stringify({ amount }), `{"amount":"${want}"}`);
  }
  for (const text of ["", ".5", "1.", "1.234", "1e3", "1,00", " 1", "1.0\n", "x", 199, 199n, null, undefined]) {
    assert.throws(() => Amount.parse(text), RangeError);
  }
  const [a, b] = [Amount.parse("0.10"), Amount.parse("0.20")];
  assert.deepEqual(a.plus(b), Amount.parse("0.30"));
  assert.equal(String(a.minus(b)), "-0.10");
  assert.deepEqual([a.compare(b), b.compare(a), a.compare(a)], [-1, 1, 0]);
  assert.ok(a.equals(new Amount(10n)) && !a.equals(b) && !a.equals("0.10"));
  assert.notDeepEqual(a, b);
  assert.throws(() => a < b, TypeError);
  assert.throws(() => a - b, TypeError);
  assert.throws(() => a.plus(1), TypeError);
  assert.throws(() => new Amount(199), TypeError);
  assert.throws(() => {
    a.paise = 0n;
  }, TypeError);
});

test("JSON is decoded with exact amounts", () => {
  const text = String.raw`{"amount": 90071992547409.93, "price":199, "list":[-0.50,1,2.5e3,-3], "rate":0.125, "duration":12,
    "note":"costs 1.50, \"2.50\" or \\", "s1.50":"n1.50", "\u0031.5":null, "deep":{"after":0.00,"ok":true}, "__proto__":{"x":1}}`;
  const value = decode(text);
  assert.equal(String(value.amount), "90071992547409.93");
  assert.equal(String(value.price), "199.00");
  assert.deepEqual(value.list, [new Amount(-50n), 1, 2500, -3]);
  assert.equal(value.rate, 0.125);
  assert.equal(value.duration, 12);
  assert.equal(value.note, 'costs 1.50, "2.50" or \\');
  assert.equal(value["s1.50"], "n1.50");
  assert.equal(value["1.5"], null);
  assert.deepEqual(value.deep, { after: new Amount(0n), ok: true });
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  for (const invalid of ["", "{1:2}", "{1.5:2}", "01", "1.", "1.5.2", "[1 2]", "1-2", '"1.5', '"a\\', '{"a":1.5', "nul", "'1.5'", '"\n"']) {
    assert.throws(() => decode(invalid), SyntaxError, invalid);
  }
});

test("a customer's password is readable and not printed", () => {
  const operation = decode('{"customer":{"name":"Asha","password":"hunter22"},"amount":1.00}');
  assert.equal(operation.customer.password, "hunter22");
  assert.equal(operation.customer.name, "Asha");
  const error = new CoaxError({ message: "no", operation });
  for (const value of [operation, operation.customer, error, { ...operation }]) {
    assert.doesNotMatch(printed(value), /hunter22/);
  }
  assert.doesNotMatch(serialize({ ...operation.customer }).toString("latin1"), /hunter22/);
  assert.doesNotMatch(serialize(structuredClone(operation.customer)).toString("latin1"), /hunter22/);
  assert.match(inspect(operation), /password: '\[secret\]'/);
});

test("the secret is not printed", async () => {
  const client = new Client(options({ attempts: 1 }));
  assert.doesNotMatch(printed(client), /never_issued/);
  assert.match(inspect(client), /cxk_test/);
  assert.doesNotMatch(printed(await errorOf(client.renew(BODY, KEY))), /never_issued/);
  for (const wrong of [{ apiSecret: `${SECRET}\n` }, { apiKey: "" }, { baseUrl: "x" }, { timeout: -1 }]) {
    assert.throws(() => new Client(options(wrong)), (error) => !printed(error).includes("never_issued"));
  }
});

test("invalid options are errors", () => {
  const notACertificate = join(folder, "key.pem");
  writeFileSync(notACertificate, generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }));
  const wrong = {
    baseUrl: [
      undefined, "", "x", "https://host", "https://host/api/v2", "https://host/api/v1?x=1", "https://host/api/v1#x",
      "http://host/api/v1", "http://127.evil.example/api/v1", "ftp://localhost/api/v1", "https://user:word@host/api/v1",
    ],
    apiKey: [undefined, null, "", 7, "cxk_1\n", "cxk 1", "cxk_é"],
    apiSecret: [undefined, "", "cxs_1\n"],
    caCert: [join(folder, "missing.pem"), notACertificate],
    attempts: [0, -1, 1.5, "6", NaN],
    timeout: [0, -1, NaN, Infinity, "60", 1e9],
    connectTimeout: [0],
    totalTimeout: [0],
    pause: [-1, "1"],
    maxPause: [-1],
    maxRetryAfter: [-1],
    waitUntilSettled: ["yes", 1],
    onAttempt: ["log"],
    clock: [1],
    connect_timeout: [1],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      assert.throws(() => new Client(options({ [name]: value })), TypeError, `${name}: ${value}`);
    }
  }
  assert.throws(() => new Client(), TypeError);
  for (const baseUrl of ["https://host/api/v1/", "https://host:8443/proxy/api/v1", "http://localhost:1/api/v1", "http://[::1]/api/v1"]) {
    new Client(options({ baseUrl, pause: 0, maxPause: 0, maxRetryAfter: 0, caCert: null, timeout: undefined }));
  }
});

test("the defaults are those of BEHAVIOUR.md", () => {
  const words = new Map([["yes", true], ["none", undefined], ["the system's", Date.now]]);
  const want = {};
  for (const [, name, text] of BEHAVIOUR.matchAll(/^\| `([a-z_]+)` \| ([^|]+) \| [^|]+ \|$/gm)) {
    const option = name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
    want[option] = words.has(text) ? words.get(text) : Number(text.replace(/ s$/, ""));
  }
  const { baseUrl, apiKey, apiSecret } = options();
  const { origin, prefix, ca, baseUrl: _, apiKey: __, ...got } = readSettings({ baseUrl, apiKey, apiSecret }).settings;
  assert.deepEqual(got, want);
});

test("pauses are random between half and all of their length", (t) => {
  const exchange = new Exchange({ origin: "http://127.0.0.1:9", connectTimeout: 1, pause: 0.5, maxPause: 3 });
  for (const [random, want] of [
    [0, [0.25, 0.5, 1, 1.5, 1.5]],
    [0.5, [0.375, 0.75, 1.5, 2.25, 2.25]],
    [0.75, [0.4375, 0.875, 1.75, 2.625, 2.625]],
  ]) {
    t.mock.method(Math, "random", () => random);
    assert.deepEqual([1, 2, 3, 4, 100].map((n) => exchange.pause(n)), want);
  }
  t.mock.method(Math, "random", () => 0.5);
  assert.equal(exchange.pauseAfter({ status: 429, retryAfter: 60 }, 1), 63);
});

test("text that is not UTF-8 is not sent", async () => {
  let requests = 0;
  const client = await serve(() => requests++);
  const bodies = [{ full_name: "\ud800", mobile: "1" }, '{"full_name":"\udc00"}', Buffer.from([0x7b, 0xff, 0x7d])];
  for (const body of bodies) {
    const error = await errorOf(client.activate(body, KEY));
    assert.ok(error instanceof coax.InvalidRequestError);
    assert.equal(error.code, Code.VALIDATION_ERROR);
    assert.equal(error.undecided, false);
  }
  assert.deepEqual(Object.keys((await errorOf(client.activate(bodies[0], KEY))).fields), ["full_name"]);
  assert.equal((await errorOf(client.subscription("\ud800"))).code, Code.VALIDATION_ERROR);
  for (const body of [undefined, null, 7, [], new Date()]) {
    assert.ok((await errorOf(client.renew(body, KEY))) instanceof TypeError);
  }
  for (const key of [undefined, null, "", 12345678, "short", "order 4711", `${KEY}\n`]) {
    assert.match((await errorOf(client.renew(BODY, key))).code, /^(MISSING|INVALID)_IDEMPOTENCY_KEY$/);
  }
  assert.equal(requests, 0);
});

test("text and bytes are sent as they are, and look-ups accept all names", async () => {
  const seen = [];
  const client = await serve(async (request, response) => {
    const chunks = await request.toArray();
    seen.push(`${request.method} ${request.url} ${Buffer.concat(chunks)}`);
    send(response, 404, { success: false, request_id: "req_1", code: "SUBSCRIBER_NOT_FOUND", message: "No.", data: {} });
  });
  await errorOf(client.renew('{ "plan_id" : "é" }', KEY));
  await errorOf(client.advanceRenew(Buffer.from("{}\n"), KEY));
  await errorOf(client.subscription("1 0"));
  await errorOf(client.subscription({ subscriber_id: "1", mobile: "2" }));
  await errorOf(client.subscription({ mobile: "2" }));
  await errorOf(client.transaction({ transactionId: "CX*" }));
  await errorOf(client.transaction({ idempotency_key: "a:b" }));
  const error = await errorOf(client.transaction());
  assert.deepEqual(seen, [
    'POST /api/v1/renew { "plan_id" : "é" }',
    "POST /api/v1/advance-renew {}\n",
    "GET /api/v1/subscription?subscriber_id=1%200 ",
    "GET /api/v1/subscription?subscriber_id=1 ",
    "GET /api/v1/subscription?mobile=2 ",
    "GET /api/v1/transaction?transaction_id=CX%2A ",
    "GET /api/v1/transaction?idempotency_key=a%3Ab ",
    "GET /api/v1/transaction ",
  ]);
  assert.equal(error.message, "No.");
  assert.equal(JSON.parse(JSON.stringify(error)).requestId, "req_1");
});

test("a connection that was never made is not undecided", async () => {
  const seen = [];
  const client = new Client(options({ attempts: 2, onAttempt: (attempt) => seen.push(attempt) }));
  const error = await errorOf(client.renew(BODY, KEY));
  assert.ok(error instanceof coax.NoAnswerError);
  assert.deepEqual([error.undecided, error.attempts, error.status, error.code], [false, 2, 0, ""]);
  assert.match(error.message, /^POST renew: no answer: .*ECONNREFUSED/);
  assert.equal(seen[1].pause, null);
});

test("a TLS handshake without end is a connection that was never made", async () => {
  const sockets = [];
  const address = await listen(net.createServer((socket) => sockets.push(socket)));
  const client = new Client(options({ baseUrl: `https://${address}/api/v1`, connectTimeout: 0.1, attempts: 2 }));
  const error = await errorOf(client.renew(BODY, KEY));
  sockets.forEach((socket) => socket.destroy());
  assert.match(error.message, /no connection within 0.1 s/);
  assert.deepEqual([error.undecided, error.attempts], [false, 2]);
});

test("a certificate that does not verify is neither retried nor undecided", async (t) => {
  const [key, cert] = [join(folder, "tls.key"), join(folder, "tls.crt")];
  const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"];
  const made = spawnSync("openssl", [...request, "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]);
  if (made.status !== 0) {
    t.skip("there is no openssl");
    return;
  }
  let requests = 0;
  const server = https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) => {
    requests++;
    send(response, 403, { success: false, code: "API_DISABLED" });
  });
  const { port } = new URL(`https://${await listen(server)}`);
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  t.after(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);
  // An unknown authority, and another host than the certificate's.
  for (const more of [{ baseUrl: `https://localhost:${port}/api/v1` }, { baseUrl: `https://127.0.0.1:${port}/api/v1`, caCert: cert }]) {
    const error = await errorOf(new Client(options(more)).renew(BODY, KEY));
    assert.ok(error instanceof coax.NoAnswerError);
    assert.deepEqual([error.undecided, error.attempts, error.cause.untrusted], [false, 1, true], error.message);
  }
  assert.equal(requests, 0);
  const trusted = new Client(options({ baseUrl: `https://localhost:${port}/api/v1`, caCert: cert }));
  assert.equal((await errorOf(trusted.balance())).code, Code.API_DISABLED);
});

test("an answer that trickles ends with the attempt's time-out", async () => {
  const client = await serve(
    (request, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 20);
      response.on("close", () => clearInterval(timer));
    },
    { timeout: 0.15, attempts: 1 },
  );
  const error = await errorOf(client.renew(BODY, KEY));
  assert.ok(error instanceof coax.NoAnswerError && error.undecided);
  assert.match(error.message, /within 0.15 s/);
});

test("an answer without end is not read to its end", async () => {
  const client = await serve(
    (request, response) => {
      response.writeHead(200);
      const fill = () => {
        while (response.write(Buffer.alloc(1 << 20, " ")));
      };
      response.on("drain", fill);
      fill();
    },
    { attempts: 1 },
  );
  const error = await errorOf(client.balance());
  assert.ok(error instanceof coax.NoAnswerError);
  assert.deepEqual([error.status, error.undecided], [200, false]);
});

test("errors of the hook do not end the call", async () => {
  const balance = '{"success":true,"request_id":"req_1","code":"OK","message":"","data":{"currency":"INR","wallet_balance":1.50}}';
  const hooks = [
    () => {
      throw new Error("in the hook");
    },
    () => Promise.reject(new Error("in the hook")),
  ];
  for (const onAttempt of hooks) {
    const client = await serve((request, response) => send(response, 200, balance), { onAttempt });
    assert.equal(String((await client.balance()).wallet_balance), "1.50");
  }
});

test("awaitSettled ends with its time", async () => {
  const client = await serve((request, response) => send(response, 503, "no"), { attempts: 1 });
  for (const timeout of [0.05, { timeout: 0.05 }]) {
    const error = await errorOf(client.awaitSettled(KEY, timeout));
    assert.ok(error instanceof coax.NoAnswerError && error.undecided);
  }
  assert.ok((await errorOf(client.awaitSettled(KEY, { timeout: -1 }))) instanceof TypeError);
});

test("every code has its class of BEHAVIOUR.md, and a type", () => {
  const seen = ["OK"];
  for (const [, name, codes] of BEHAVIOUR.matchAll(/^\| `([A-Za-z]+Error)` \| (.+) \|$/gm)) {
    for (const [, code] of codes.matchAll(/`([A-Z_]+)`/g)) {
      assert.equal(failureOf({ code, status: 400 }).constructor, coax[name], code);
      seen.push(code);
    }
  }
  assert.deepEqual(seen.sort(), Object.keys(Code).sort());
  const types = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
  const names = [Code, coax.Reason, coax.Warning].flatMap((list) => Object.keys(list));
  names.forEach((name) => assert.ok(types.includes(`"${name}"`), name));
});

test("the types have the package's exports, and an example uses each", () => {
  const types = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
  const example = readFileSync(new URL("../index.test-d.ts", import.meta.url), "utf8");
  const exported = [...types.matchAll(/^export (class|const|interface|type) (\w+)/gm)];
  const values = exported.filter(([, kind]) => kind === "class" || kind === "const").map(([, , name]) => name);
  assert.deepEqual(values.sort(), Object.keys(coax).sort());
  assert.equal(types.match(/^export /gm).length, exported.length);
  const [imports, rest] = example.split('} from "./index.js";');
  for (const [, , name] of exported) {
    assert.match(imports, new RegExp(`^  (type )?${name},$`, "m"));
    assert.match(rest, new RegExp(`\\b${name}\\b`));
  }
});
