// A client of the Coax API written by hand, with node:https: `node client.mjs [FAULT [STATE_FILE]]`.
//
// It reads one JSON order per line and answers each with one JSON line. Without a fault it is correct; a fault is a
// module in faults/ that overrides one decision of Client. None of them needs a state file.
import { createHash, createHmac, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";

const CONCURRENT_ORDERS = 16;
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_RETRY_AFTER = 120; // this and all other times are in seconds
const DECIDES_KEY = ["PROVIDER_ERROR", "IDEMPOTENCY_KEY_REUSED"]; // final, whatever became of earlier attempts
const NOTHING_OPEN = ["PROVIDER_ERROR", "PLANS_UNAVAILABLE"]; // the 5xx after which nothing can have been carried out

const now = () => performance.now() / 1000;
const is2xx = (status) => status >= 200 && status < 300;

class Client {
  totalTimeout = 180;
  attemptTimeout = 60;
  connectTimeout = 10;
  clockOffsets = new Map(); // seconds to add to the system's clock, by API key

  // Carries out one order. A decision about an answer is either the next step, { step, pause }, or the end, { outcome, … }.
  async carryOut(order, body) {
    if (!/^[A-Za-z0-9_.:-]{8,100}$/.test(order.idempotency_key)) return { outcome: "failed", code: "INVALID_IDEMPOTENCY_KEY" };
    const call = {
      order,
      body,
      ca: readFileSync(order.ca_cert),
      deadline: now() + this.totalTimeout,
      tries: { send: 0, poll: 0 },
      undecided: false, // an attempt may have been carried out, or may still be
      clockCorrected: false,
      transactionId: "",
      code: "",
    };
    for (let step = "send"; ; ) {
      call.tries[step]++;
      const answer = await this.attempt(call, step);
      this.remember(call, answer);
      let decision = step === "send" ? this.afterSend(call, answer) : this.afterPoll(call, answer);
      if (decision.step && now() + decision.pause > call.deadline) decision = this.end(call);
      this.log(call, step, answer, decision);
      if (decision.outcome) return decision;
      await sleep(decision.pause * 1000);
      step = decision.step;
    }
  }

  // One attempt. An answer has status 0 if none came, and no code if it is not the service's.

  async attempt(call, step) {
    const { order } = call;
    const url = new URL(order.base_url.replace(/\/+$/, "") + "/" + (step === "send" ? order.operation : "transaction"));
    if (url.protocol !== "https:") throw new Error("base_url does not begin with https://");
    if (step === "poll") url.search = "?idempotency_key=" + encodeURIComponent(order.idempotency_key);
    const method = step === "send" ? "POST" : "GET";
    const body = step === "send" ? call.body : "";
    const headers = this.sign(order, method, url, body);
    if (step === "send") headers["Content-Type"] = "application/json";
    if (step === "send") headers["Idempotency-Key"] = order.idempotency_key;
    const seconds = Math.max(0.1, Math.min(this.attemptTimeout, call.deadline - now()));
    try {
      return this.read(order, await this.exchange(url, { method, headers, ca: call.ca }, body, seconds));
    } catch (error) {
      const { sent, untrusted } = error;
      return { status: 0, code: "", data: {}, sent, untrusted, error: error.code ?? error.message };
    }
  }

  sign({ api_key, api_secret }, method, url, body) {
    const timestamp = String(Math.floor(Date.now() / 1000 + (this.clockOffsets.get(api_key) ?? 0)));
    const nonce = randomBytes(16).toString("hex");
    const digest = createHash("sha256").update(body).digest("hex");
    const text = [method, url.pathname, url.search.slice(1), timestamp, nonce, digest].join("\n");
    const signature = createHmac("sha256", api_secret).update(text).digest("hex");
    return { "X-API-Key": api_key, "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Signature": signature };
  }

  // Every exchange has a connection of its own, so that an old one that the server has closed is never used.
  exchange(url, options, body, seconds, library = https) {
    return new Promise((resolve, reject) => {
      let sent = false;
      const request = library.request(url, { ...options, agent: false, rejectUnauthorized: true });
      const connecting = setTimeout(() => request.destroy(new Error("time-out of connect")), this.connectTimeout * 1000);
      const waiting = setTimeout(() => request.destroy(new Error("time-out")), seconds * 1000);
      const fail = (error) => reject(Object.assign(error, { sent, untrusted: Boolean(request.socket?.authorizationError) }));
      request.on("socket", (socket) => {
        socket.on(library === https ? "secureConnect" : "connect", () => {
          sent = true;
          clearTimeout(connecting);
        });
      });
      request.on("error", fail);
      request.on("close", () => {
        clearTimeout(connecting);
        clearTimeout(waiting);
        fail(new Error("the connection was closed")); // without effect after an answer
      });
      request.on("response", (response) => {
        const chunks = [];
        let length = 0;
        response.on("data", (chunk) => {
          chunks.push(chunk);
          length += chunk.length;
          if (length > MAX_ANSWER_BYTES) request.destroy(new Error("the answer is too long"));
        });
        response.on("error", fail); // also if the body was cut
        response.on("end", () => {
          resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString() });
        });
      });
      request.end(body);
    });
  }

  read(order, { status, headers, text }) {
    const retryAfter = /^[0-9]{1,9}$/.test(headers["retry-after"] ?? "") ? Number(headers["retry-after"]) : undefined;
    const answer = { status, retryAfter, success: false, code: "", data: {}, sent: true };
    let envelope;
    try {
      envelope = JSON.parse(text);
    } catch {
      return answer;
    }
    const isRedirect = status >= 300 && status < 400;
    const data = typeof envelope?.data === "object" && envelope.data ? envelope.data : {};
    const ofOtherOperation = (data.idempotency_key ?? order.idempotency_key) !== order.idempotency_key;
    if (typeof envelope?.code !== "string" || isRedirect || ofOtherOperation) return answer;
    return { ...answer, success: envelope.success === true, code: envelope.code, data };
  }

  remember(call, { code, data }) {
    if (data.idempotency_key) call.transactionId = data.transaction_id ?? call.transactionId;
    call.code = data.result_code || code || call.code;
  }

  // What follows from an answer

  afterSend(call, answer) {
    if (this.isSuccess(call, answer)) return this.success(answer);
    if (DECIDES_KEY.includes(answer.code)) return this.failed(call);
    if (answer.code === "REQUEST_IN_PROGRESS" || (answer.code && is2xx(answer.status))) return this.poll(call);
    call.undecided ||= this.mayHaveRun(answer);
    return this.afterFailure(call, "send", answer);
  }

  poll(call) {
    call.undecided = true;
    return { step: "poll", pause: this.pollPause(call) };
  }

  afterPoll(call, answer) {
    if (this.isSuccess(call, answer)) return this.success(answer);
    if (answer.status === 200 && answer.data.status === "failed") return this.failed(call);
    if (answer.code && is2xx(answer.status)) return this.poll(call);
    const nothingReserved = answer.code === "TRANSACTION_NOT_FOUND"; // so far: only sending again makes sure
    if (nothingReserved) return { step: "send", pause: this.growingPause(call.tries.send) };
    return this.afterFailure(call, "poll", answer);
  }

  afterFailure(call, step, answer) {
    if (answer.code === "TIMESTAMP_EXPIRED" && this.correctClock(call, answer)) return { step, pause: 0 };
    if (!this.isRetried(answer) || answer.retryAfter > MAX_RETRY_AFTER) return this.end(call);
    if (answer.status === 429 && answer.retryAfter) return { step, pause: answer.retryAfter * (1.01 + Math.random() * 0.09) };
    const pause = this.growingPause(call.tries[step]);
    return { step, pause: answer.code === "OPERATION_IN_PROGRESS" ? Math.max(2, pause) : pause };
  }

  // After an undecided attempt a refusal of a later one does not mean that nothing was carried out.
  end(call) {
    return { ...this.failed(call), outcome: call.undecided ? "pending" : "failed" };
  }

  failed({ code, transactionId }) {
    return { outcome: "failed", code, transaction_id: transactionId };
  }

  isSuccess({ order }, { status, success, data }) {
    const isOurs = data.idempotency_key === order.idempotency_key && typeof data.transaction_id === "string";
    return status === 200 && success && data.status === "success" && isOurs && Number.isFinite(data.wallet?.charged);
  }

  success({ data }) {
    const paise = Math.round(data.wallet.charged * 100);
    return { outcome: "success", code: "OK", transaction_id: data.transaction_id, charged: (paise / 100).toFixed(2) };
  }

  mayHaveRun({ status, code, sent }) {
    if (!code) return sent;
    return code === "REPLAY_DETECTED" || (status >= 500 && !NOTHING_OPEN.includes(code));
  }

  isRetried({ status, code, untrusted }) {
    if (status === 0) return !untrusted;
    if (!code) return is2xx(status) || status === 429 || status >= 500;
    return [429, 500, 502, 503, 504].includes(status) || code === "REPLAY_DETECTED" || code === "OPERATION_IN_PROGRESS";
  }

  correctClock(call, { data }) {
    if (call.clockCorrected || !Number.isInteger(data.server_time)) return false;
    call.clockCorrected = true;
    this.clockOffsets.set(call.order.api_key, data.server_time - Date.now() / 1000);
    return true;
  }

  growingPause(tries, longest = 15) {
    return Math.min(longest, 0.5 * 2 ** (tries - 1)) * (1 + Math.random() / 2);
  }

  pollPause(call) {
    return this.growingPause(call.tries.poll + 1, 4);
  }

  log({ order, tries }, step, { status, code, error }, { outcome, step: next, pause }) {
    const got = status ? `${status} ${code}` : `no answer (${error})`;
    process.stderr.write(`${order.id}: ${step} ${tries[step]}: ${got}; ${outcome ?? `${next} in ${pause.toFixed(1)} s`}\n`);
  }
}

// The value of a member of a JSON object exactly as it is written: JSON.parse changes numbers that are not doubles.
function sourceOf(json, name) {
  let depth = 0, member = "", previous = "", start = -1;
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g)) {
    if (depth === 1 && (previous === "{" || previous === ",")) member = token;
    if (depth === 1 && previous === ":" && JSON.parse(member) === name) start = index;
    if (token === "{" || token === "[") depth++;
    if (token === "}" || token === "]") depth--;
    if (depth === 1 && start >= 0) return json.slice(start, index + token.length);
    previous = token;
  }
  throw new Error(`the order has no ${name}`);
}

// The lines of a stream. New versions of node:readline also split at U+2028 and U+2029, which JSON strings may contain.
async function* lines(stream) {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

async function answerOrder(client, line) {
  const order = JSON.parse(line);
  let result;
  try {
    result = await client.carryOut(order, Buffer.from(sourceOf(line, "body")));
  } catch (error) { // an order that cannot be used; it is answered all the same
    process.stderr.write(`${order.id}: ${error.message}\n`);
    result = { outcome: "failed" };
  }
  process.stdout.write(JSON.stringify({ id: order.id, transaction_id: "", code: "", charged: "", ...result }) + "\n");
}

async function main(fault) {
  const module = new URL(`faults/${fault}.mjs`, import.meta.url);
  if (fault && !existsSync(module)) {
    process.stderr.write(`client.mjs: there is no fault "${fault}"\n`);
    process.exit(2);
  }
  const client = new (fault ? (await import(module)).default(Client) : Client)();
  const running = new Set();
  for await (const line of lines(process.stdin)) {
    if (running.size === CONCURRENT_ORDERS) await Promise.race(running);
    const order = answerOrder(client, line).finally(() => running.delete(order));
    running.add(order);
  }
}

main(process.argv[2]);
