import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { readAnswer } from "./answer.js";
import { Code } from "./codes.js";
import { errorOf } from "./errors.js";
import { signature } from "./signing.js";
import { Transport, TransportError } from "./transport.js";

const USER_AGENT = "coax-node/0.2.0";

// The shortest pause while another operation of the same customer is in progress.
const BUSY_PAUSE = 2;

// Exchange makes calls: it signs and sends a request until it has an answer or the call
// cannot be retried. Durations are in seconds; deadlines are in those of now().
export class Exchange {
  #settings;
  #signingKey;
  #transport;
  #aheadMs = 0; // of the service's clock, by its last report

  constructor(settings, signingKey) {
    this.#settings = settings;
    this.#signingKey = signingKey;
    this.#transport = new Transport(settings.origin, settings.ca, settings.connectTimeout * 1000);
  }

  // call returns the result of a success with its request id and number of attempts, or
  // throws a CoaxError. Every attempt has a new signature and exactly the same body.
  async call(call, deadline) {
    let corrected = false;
    let undecided = false;
    if (now() >= deadline) {
      throw noAnswer(call.name, "the time of the call is over", 0);
    }
    for (let attempt = 1; ; attempt++) {
      const began = now();
      const { requestId, result, failure } = await this.#attempt(call, deadline);
      const seen = { call: call.name, number: attempt, requestId: requestId ?? "", duration: now() - began };
      if (failure === undefined) {
        this.#report({ ...seen, status: 200, code: Code.OK, pause: null, error: null });
        return { result, requestId, attempts: attempt };
      }
      undecided ||= leavesUndecided(call, failure);

      let pause = 0;
      let again = attempt < this.#settings.attempts;
      if (failure.code === Code.TIMESTAMP_EXPIRED && !corrected && failure.serverTime !== undefined) {
        // The service counts a wrong clock as a failed authentication, so the clock is
        // corrected only once.
        this.#aheadMs = failure.serverTime.getTime() - this.#settings.clock();
        corrected = true;
      } else if (!retryable(failure) || failure.retryAfter > this.#settings.maxRetryAfter) {
        again = false;
      } else {
        pause = this.pauseAfter(failure, attempt);
      }
      again &&= now() + pause < deadline;
      const { status = 0, code = "", cause = null } = failure;
      this.#report({ ...seen, status, code, pause: again ? pause : null, error: cause });
      if (!again) {
        const message = failure.message ?? describe(call.name, status, cause);
        throw errorOf({ ...failure, message, attempts: attempt, undecided: undecided && !isFinal(failure) });
      }
      await sleep(pause * 1000);
    }
  }

  // pause returns the growing pause after the n-th attempt.
  pause(n) {
    const { pause, maxPause } = this.#settings;
    const longest = Math.min(pause * 2 ** (n - 1), maxPause);
    return longest / 2 + Math.random() * (longest / 2);
  }

  // pauseAfter returns the pause after an attempt that failed.
  pauseAfter(failure, attempt) {
    if (failure.status === 429 && failure.retryAfter > 0) {
      // Other clients of the operator were given the same time.
      return failure.retryAfter * (1 + Math.random() / 10);
    }
    const pause = this.pause(attempt);
    if (failure.code === Code.OPERATION_IN_PROGRESS) {
      return Math.min(Math.max(pause, BUSY_PAUSE), this.#settings.maxPause);
    }
    return pause;
  }

  async #attempt(call, deadline) {
    const timeout = Math.min(this.#settings.timeout, deadline - now());
    try {
      return readAnswer(call, await this.#transport.send(this.#sign(call), timeout * 1000));
    } catch (error) {
      if (error instanceof TransportError) {
        return { failure: { cause: error } };
      }
      throw error;
    }
  }

  #sign(call) {
    const { method, path, query, body } = call;
    const timestamp = String(Math.floor((this.#settings.clock() + this.#aheadMs) / 1000));
    const nonce = randomBytes(16).toString("hex");
    const headers = {
      "User-Agent": USER_AGENT,
      "X-API-Key": this.#settings.apiKey,
      "X-Timestamp": timestamp,
      "X-Nonce": nonce,
      "X-Signature": signature(this.#signingKey, { method, path, query, body, timestamp, nonce }),
    };
    if (method === "POST") {
      headers["Content-Type"] = "application/json";
      headers["Content-Length"] = body.length;
      headers["Idempotency-Key"] = call.key;
    }
    // What a proxy has before /api/v1 is not signed.
    return { method, headers, body, path: this.#settings.prefix + path + (query && `?${query}`) };
  }

  // report calls the hook. An error in it must not end a call that may have been charged.
  #report(attempt) {
    try {
      Promise.resolve(this.#settings.onAttempt?.(attempt)).catch(() => {});
    } catch {
      // It is the hook's own to handle.
    }
  }
}

// now returns seconds of a clock that is never set.
export function now() {
  return performance.now() / 1000;
}

// wait returns false, at once, if the deadline is before the end of the pause.
export async function wait(pause, deadline) {
  if (now() + pause >= deadline) {
    return false;
  }
  await sleep(pause * 1000);
  return true;
}

export function noAnswer(name, why, attempts) {
  const cause = new Error(why);
  return errorOf({ message: describe(name, 0, cause), attempts, cause });
}

function describe(name, status, cause) {
  return `${name}: ${status === 0 ? "no answer" : `status ${status}`}: ${cause?.message ?? "nothing was sent"}`;
}

// retryable reports whether the contract allows a retry with the same key. It takes a
// failure, or a CoaxError.
export function retryable({ status = 0, code = "", cause }) {
  if (status === 0) {
    return !cause?.untrusted; // an invalid certificate stays invalid
  }
  if (code === "") {
    return status === 429 || status >= 500 || status < 300;
  }
  // Each attempt has a new nonce, so after REPLAY_DETECTED the network delivered a request
  // twice, and this is the answer to the copy.
  return [Code.REPLAY_DETECTED, Code.OPERATION_IN_PROGRESS].includes(code) || [429, 500, 503].includes(status);
}

// leavesUndecided reports whether an attempt may have started the operation, or may still
// start it, with an unknown outcome.
function leavesUndecided(call, { status = 0, code = "", cause }) {
  if (call.key === "") {
    return false;
  }
  if (status === 0) {
    return cause.sent;
  }
  if (code === "" || [Code.PENDING_REVIEW, Code.REQUEST_IN_PROGRESS, Code.REPLAY_DETECTED].includes(code)) {
    return true;
  }
  return ![Code.PLANS_UNAVAILABLE, Code.PROVIDER_ERROR].includes(code) && (status >= 500 || status < 300);
}

// isFinal reports whether the answer decides the key, whatever came before.
function isFinal({ code }) {
  return code === Code.PROVIDER_ERROR || code === Code.IDEMPOTENCY_KEY_REUSED;
}
