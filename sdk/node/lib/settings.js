import { X509Certificate, createSecretKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIPv4 } from "node:net";

// Signed paths begin with it, whatever a proxy has before it.
export const API_PATH = "/api/v1";

// Seconds, with the least value that is allowed. Node's timers end at 24 days.
const DURATIONS = {
  connectTimeout: { standard: 10, positive: true },
  timeout: { standard: 60, positive: true },
  totalTimeout: { standard: 180, positive: true },
  pause: { standard: 0.5, positive: false },
  maxPause: { standard: 30, positive: false },
  maxRetryAfter: { standard: 120, positive: false },
};
const MAX_SECONDS = 1_000_000;

// readSettings checks the options of a client. The secret is returned apart, as a key that
// cannot be printed.
export function readSettings(options) {
  const { baseUrl, apiKey, apiSecret, caCert, ...rest } = options ?? {};
  const settings = { ...readBase(baseUrl), ca: readCertificate(caCert) };
  settings.apiKey = readCredential("apiKey", apiKey);
  const signingKey = createSecretKey(Buffer.from(readCredential("apiSecret", apiSecret)));
  const { attempts, waitUntilSettled, onAttempt, clock, ...durations } = rest;
  settings.attempts = attempts ?? 6;
  if (!Number.isSafeInteger(settings.attempts) || settings.attempts < 1) {
    throw new TypeError("attempts has to be an integer above zero");
  }
  settings.waitUntilSettled = waitUntilSettled ?? true;
  if (typeof settings.waitUntilSettled !== "boolean") {
    throw new TypeError("waitUntilSettled has to be true or false");
  }
  settings.onAttempt = readFunction("onAttempt", onAttempt);
  settings.clock = readFunction("clock", clock) ?? Date.now;
  for (const [name, { standard, positive }] of Object.entries(DURATIONS)) {
    settings[name] = readSeconds(name, durations[name] ?? standard, positive);
  }
  const unknown = Object.keys(durations).find((name) => !Object.hasOwn(DURATIONS, name));
  if (unknown !== undefined) {
    throw new TypeError(`there is no option ${unknown}`);
  }
  return { settings, signingKey };
}

export function readSeconds(name, value, positive) {
  const inRange = typeof value === "number" && value >= 0 && value <= MAX_SECONDS && !(positive && value === 0);
  if (!inRange) {
    throw new TypeError(`${name} has to be a number of seconds, ${positive ? "above zero" : "not below zero"} and at most a million`);
  }
  return value;
}

function readFunction(name, value) {
  if (value !== undefined && value !== null && typeof value !== "function") {
    throw new TypeError(`${name} has to be a function`);
  }
  return value ?? undefined;
}

function readBase(text) {
  let base;
  try {
    base = new URL(text);
  } catch {
    throw new TypeError("baseUrl is not an address: write it as https://HOST/api/v1");
  }
  const path = base.pathname.replace(/\/$/, "");
  if (!path.endsWith(API_PATH) || base.search || base.hash || base.username || base.password) {
    throw new TypeError("baseUrl has to be written as https://HOST/api/v1");
  }
  // Requests contain a key, a signature and customers' passwords. Plain HTTP is allowed on
  // loopback only, for development.
  if (base.protocol !== "https:" && !(base.protocol === "http:" && isLoopback(base.hostname))) {
    throw new TypeError("baseUrl has to begin with https://");
  }
  const prefix = path.slice(0, -API_PATH.length);
  return { origin: base.origin, prefix, baseUrl: base.origin + path };
}

function isLoopback(host) {
  return host === "localhost" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}

// The value is not in the messages: it may be the secret.
function readCredential(name, value) {
  if (typeof value !== "string" || value === "") {
    throw new TypeError(`${name} is missing`);
  }
  // A key read from a file often ends with a line feed, which is invalid in a header.
  if (/[^!-~]/.test(value)) {
    throw new TypeError(`${name} has a space, a line feed or another character that none has: trim it`);
  }
  return value;
}

function readCertificate(path) {
  if (path === undefined || path === null || path === "") {
    return undefined;
  }
  try {
    const text = readFileSync(path);
    new X509Certificate(text); // throws if it is none
    return text;
  } catch (cause) {
    throw new TypeError(`the certificate ${path} cannot be read: ${cause.message}`, { cause });
  }
}
