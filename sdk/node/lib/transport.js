import http from "node:http";
import https from "node:https";

// What is read of an answer; the service's are far smaller.
const MAX_ANSWER = 8 << 20;

// How long an idle connection is kept. The service closes them after a minute; a request
// on a connection that is being closed would be lost.
const IDLE_MS = 20_000;

// TransportError is why no answer came.
export class TransportError extends Error {
  constructor(cause, { sent, untrusted }) {
    // An AggregateError, of a host with several addresses, has no message of its own.
    const parts = cause.errors?.map((error) => error.message).join("; ");
    super(cause.message || parts || cause.code || "the connection failed", { cause });
    // Whether the request may have reached the service.
    this.sent = sent;
    // Whether the certificate did not verify.
    this.untrusted = untrusted;
  }
}
Object.defineProperty(TransportError.prototype, "name", { value: "TransportError", writable: true, configurable: true });

// Transport sends requests to one host, each of them once. It has an agent of its own,
// so that no proxy and no setting of the global agent is used.
export class Transport {
  #origin;
  #secure;
  #agent;
  #connectMs;

  constructor(origin, ca, connectMs) {
    this.#origin = new URL(origin);
    this.#secure = this.#origin.protocol === "https:";
    this.#connectMs = connectMs;
    const pool = { keepAlive: true, timeout: IDLE_MS };
    this.#agent = this.#secure
      ? // Stated, because NODE_TLS_REJECT_UNAUTHORIZED=0 changes the default.
        new https.Agent({ ...pool, ca, rejectUnauthorized: true, minVersion: "TLSv1.2" })
      : new http.Agent(pool);
  }

  // send resolves to status, headers and body, or rejects with a TransportError.
  send({ method, path, headers, body }, timeoutMs) {
    return new Promise((resolve, reject) => {
      let sent = false;
      let socket = null;
      const request = (this.#secure ? https : http).request(this.#origin, { method, path, headers, agent: this.#agent });
      const end = (settle, value) => {
        clearTimeout(attemptTimer);
        clearTimeout(connectTimer);
        settle(value);
      };
      const fail = (cause) => {
        const untrusted = !sent && Boolean(socket?.authorizationError);
        end(reject, new TransportError(cause, { sent, untrusted }));
        request.destroy();
      };
      const after = (ms, what) => setTimeout(() => fail(new Error(`${what} within ${ms / 1000} s`)), ms);
      const attemptTimer = after(timeoutMs, "no answer");
      let connectTimer;

      request.on("socket", (given) => {
        socket = given;
        if (request.reusedSocket) {
          sent = true;
          return;
        }
        connectTimer = after(this.#connectMs, "no connection");
        // Node sends nothing of the request before this event.
        socket.once(this.#secure ? "secureConnect" : "connect", () => {
          sent = true;
          clearTimeout(connectTimer);
        });
      });
      request.on("error", fail);
      request.on("response", (response) => {
        const chunks = [];
        let size = 0;
        const finish = () => {
          const text = Buffer.concat(chunks, Math.min(size, MAX_ANSWER));
          end(resolve, { status: response.statusCode, headers: response.headers, body: text });
        };
        response.on("data", (chunk) => {
          chunks.push(chunk);
          size += chunk.length;
          if (size > MAX_ANSWER) {
            finish();
            request.destroy();
          }
        });
        response.on("end", finish);
        response.on("error", fail);
        response.on("close", () => {
          if (!response.complete) {
            fail(new Error("the answer was cut"));
          }
        });
      });
      request.end(body);
    });
  }
}
