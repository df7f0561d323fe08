import { inspect } from "node:util";
import { checkOperation } from "./answer.js";
import { Code, Status } from "./codes.js";
import { CoaxError, errorOf } from "./errors.js";
import { Exchange, noAnswer, now, retryable, wait } from "./exchange.js";
import { redacted } from "./json.js";
import { checkKey, encodeBody, encodeQuery } from "./request.js";
import { API_PATH, readSeconds, readSettings } from "./settings.js";
import { signature } from "./signing.js";

const POLL = "GET transaction";

// Client calls a service. One client serves any number of concurrent calls.
export class Client {
  #settings;
  #signingKey;
  #exchange;

  constructor(options) {
    const { settings, signingKey } = readSettings(options);
    this.#settings = settings;
    this.#signingKey = signingKey;
    this.#exchange = new Exchange(settings, signingKey);
  }

  // activate creates a subscriber and activates a plan, for its price.
  async activate(body, idempotencyKey) {
    return this.#operate("activate", body, idempotencyKey);
  }

  // renew renews a subscriber, for the plan's price.
  async renew(body, idempotencyKey) {
    return this.#operate("renew", body, idempotencyKey);
  }

  // advanceRenew books a subscriber's next cycle, for the plan's price.
  async advanceRenew(body, idempotencyKey) {
    return this.#operate("advance-renew", body, idempotencyKey);
  }

  async balance() {
    return this.#lookUp("balance", {}, (data) => Boolean(data.currency));
  }

  async plans() {
    return this.#lookUp("plans", {}, (data) => Array.isArray(data.plans));
  }

  // subscription reads a subscriber, by id or else by mobile number.
  async subscription(of) {
    const { subscriberId, subscriber_id: id = subscriberId, mobile } = typeof of === "string" ? { subscriberId: of } : (of ?? {});
    const query = id ? { subscriber_id: id } : { mobile };
    return this.#lookUp("subscription", query, (data) => Boolean(data.customer?.subscriber_id));
  }

  // transaction reads an operation, by the service's id or else by the caller's key. An
  // operation that failed is returned, too.
  async transaction(of) {
    const given = typeof of === "string" ? { transactionId: of } : (of ?? {});
    const { transactionId, transaction_id: id = transactionId } = given;
    const { idempotencyKey, idempotency_key: key = idempotencyKey } = given;
    const { result } = await this.#findOperation(id ? { transaction_id: id } : { idempotency_key: key });
    return result;
  }

  // awaitSettled polls an operation until it is settled, and returns it or throws what it
  // failed with. The error is undecided if that is not known within the timeout.
  async awaitSettled(idempotencyKey, options) {
    checkKey(idempotencyKey, POLL);
    const timeout = (typeof options === "number" ? options : options?.timeout) ?? 600;
    return this.#follow(idempotencyKey, isSettled, now() + readSeconds("timeout", timeout, true));
  }

  // sign returns the signature of a request in hex. The path begins with /api/v1/; the
  // query is as sent, without "?"; the body is a string or bytes.
  sign(method, path, query, body, timestamp, nonce) {
    const request = { method, path, query: query ?? "", body: body ?? "", timestamp: String(timestamp), nonce };
    return signature(this.#signingKey, request);
  }

  async #operate(endpoint, body, key) {
    const name = `POST ${endpoint}`;
    checkKey(key, name);
    const call = {
      name,
      method: "POST",
      path: `${API_PATH}/${endpoint}`,
      query: "",
      body: encodeBody(body, name),
      key,
      isOperation: true,
      check: (data) => checkOperation(data, key),
    };
    const deadline = now() + this.#settings.totalTimeout;
    let done;
    try {
      done = await this.#exchange.call(call, deadline);
    } catch (error) {
      const enough = this.#waitsFor(error);
      if (enough === null) {
        throw error;
      }
      return this.#waitForOutcome(key, error, enough, deadline);
    }
    return outcome(done);
  }

  // waitsFor returns up to which status an operation is polled after an error, and null if
  // it is not polled.
  #waitsFor({ code }) {
    if (code === Code.PENDING_REVIEW) {
      return this.#settings.waitUntilSettled ? isSettled : null;
    }
    if (code === Code.REQUEST_IN_PROGRESS) {
      // An earlier attempt arrived, and its answer was lost.
      return this.#settings.waitUntilSettled ? isSettled : (status) => status !== Status.PROCESSING;
    }
    return null;
  }

  async #waitForOutcome(key, open, enough, deadline) {
    const password = open.operation?.customer?.password;
    try {
      return withPassword(await this.#follow(key, enough, deadline), password);
    } catch (error) {
      if (!(error instanceof CoaxError) || error.operation === undefined) {
        // The operation exists, even if the look-up fails.
        Object.defineProperty(open, "cause", { value: error, writable: true, configurable: true });
        throw open;
      }
      error.operation = withPassword(error.operation, password);
      throw error;
    }
  }

  // follow polls an operation until enough accepts its status.
  async #follow(key, enough, deadline) {
    let last = null;
    for (let poll = 1; ; poll++) {
      const found = await this.#findOperation({ idempotency_key: key }, deadline).catch((error) => {
        if (error instanceof CoaxError && retryable(error)) {
          return null;
        }
        throw openError(error, last);
      });
      last = found ?? last;
      if (found !== null && enough(found.result.status)) {
        return outcome(found);
      }
      if (!(await wait(this.#exchange.pause(poll), deadline))) {
        if (last === null) {
          throw openError(noAnswer(POLL, "the time for the outcome is over", poll), null);
        }
        return outcome(last);
      }
    }
  }

  async #findOperation(query, deadline = Infinity) {
    const matches = (data) =>
      Boolean(data.transaction_id && data.status) && Object.entries(query).every(([name, value]) => data[name] === value);
    return this.#get("transaction", query, matches, deadline);
  }

  async #lookUp(endpoint, query, isComplete) {
    const { result } = await this.#get(endpoint, query, isComplete, Infinity);
    return result;
  }

  async #get(endpoint, query, isComplete, deadline) {
    const name = `GET ${endpoint}`;
    const call = {
      name,
      method: "GET",
      path: `${API_PATH}/${endpoint}`,
      query: encodeQuery(query, name),
      body: "",
      key: "",
      isOperation: endpoint === "transaction",
      check: (data) => (isComplete(data) ? "" : "the answer is not what was asked for"),
    };
    return this.#exchange.call(call, Math.min(deadline, now() + this.#settings.totalTimeout));
  }

  toJSON() {
    return { baseUrl: this.#settings.baseUrl, apiKey: this.#settings.apiKey };
  }

  [inspect.custom](depth, options) {
    return `Client ${inspect(this.toJSON(), options)}`;
  }
}

function isSettled(status) {
  return status === Status.SUCCESS || status === Status.FAILED;
}

const OUTCOMES = {
  [Status.FAILED]: { status: 502, code: Code.PROVIDER_ERROR },
  [Status.NEEDS_REVIEW]: { status: 202, code: Code.PENDING_REVIEW },
  [Status.PROCESSING]: { status: 409, code: Code.REQUEST_IN_PROGRESS },
};

// outcome returns an operation that succeeded, and throws for every other status. A
// status of a later version is undecided.
function outcome({ result: operation, requestId, attempts }) {
  if (operation.status === Status.SUCCESS) {
    return operation;
  }
  throw errorOf({
    status: 200,
    code: operation.result_code || Code.OK,
    ...OUTCOMES[operation.status],
    message: operation.result_message || `the operation is in the state ${operation.status}`,
    requestId,
    attempts,
    undecided: operation.status !== Status.FAILED,
    operation,
  });
}

// openError makes the error of a look-up one of the operation, whose outcome is open.
function openError(error, last) {
  error.undecided = true;
  if (last !== null) {
    error.operation = last.result;
  }
  return error;
}

// withPassword keeps the password of the first answer: look-ups do not repeat it.
function withPassword(operation, password) {
  if (password === undefined || operation.customer?.password) {
    return operation;
  }
  return { ...operation, customer: redacted({ ...operation.customer, password }) };
}
