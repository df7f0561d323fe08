import { Amount } from "./amount.js";
import { Code, Status } from "./codes.js";
import { decode } from "./json.js";

const OTHER_OPERATION = "the answer is about another operation";

// readAnswer returns the result of a success, or the failure: the properties of a
// CoaxError. A failure without a code counts as no answer.
export function readAnswer(call, { status, headers, body }) {
  const retryAfter = readRetryAfter(headers["retry-after"]);
  const answer = readEnvelope(body);
  if (answer === null) {
    return { failure: { status, retryAfter, cause: new Error("the answer is not the service's") } };
  }
  const requestId = textOf(answer.request_id);
  const replayed = headers["idempotent-replayed"] === "true";
  if (status !== 200 || answer.success !== true) {
    return { requestId, failure: readRefusal(call, { status, retryAfter, requestId, replayed, answer }) };
  }
  const mistake = isObject(answer.data) ? call.check(answer.data) : "the answer has no data";
  if (mistake) {
    return { requestId, failure: { status, requestId, cause: new Error(mistake) } };
  }
  return { requestId, result: call.isOperation ? { ...answer.data, replayed } : answer.data };
}

// checkOperation returns why data is not the operation with this key.
export function checkOperation(data, key) {
  if (!textOf(data.transaction_id) || !textOf(data.status)) {
    return "the answer has no operation";
  }
  return isAbout(data, key) ? "" : OTHER_OPERATION;
}

function isAbout(operation, key) {
  return key === "" || !operation.idempotency_key || operation.idempotency_key === key;
}

function readEnvelope(body) {
  try {
    const answer = decode(body.toString("utf8"));
    return isObject(answer) && textOf(answer.code) !== "" ? answer : null;
  } catch {
    return null;
  }
}

function readRefusal(call, { status, retryAfter, requestId, replayed, answer }) {
  const { code } = answer;
  const data = isObject(answer.data) ? answer.data : {};
  const failure = { status, code, requestId, retryAfter, message: textOf(answer.message) };
  // The details of the codes. A later version may send other types under the same names;
  // then they are in data only.
  if (isObject(data.fields)) {
    failure.fields = data.fields;
  }
  if (data.shortfall instanceof Amount) {
    failure.shortfall = data.shortfall;
    failure.walletBalance = data.wallet_balance;
    failure.requiredAmount = data.required_amount;
  }
  if (Number.isSafeInteger(data.server_time)) {
    failure.serverTime = new Date(data.server_time * 1000);
  }
  failure.previousTransactionId = textOf(data.previous_transaction_id) || undefined;
  failure.ip = textOf(data.ip) || undefined;
  if (code === Code.OPERATION_IN_PROGRESS) {
    failure.openTransactionId = textOf(data.transaction_id) || undefined;
  } else if (textOf(data.transaction_id)) {
    if (!isAbout(data, call.key)) {
      return { status, requestId, cause: new Error(OTHER_OPERATION) };
    }
    return { ...failure, operation: { ...data, replayed } };
  }
  // These two come with an operation, if only with its key and status.
  const state = { [Code.PENDING_REVIEW]: Status.NEEDS_REVIEW, [Code.PROVIDER_ERROR]: Status.FAILED }[code];
  if (state !== undefined && call.key !== "") {
    failure.operation = { idempotency_key: call.key, status: state, replayed };
  }
  return { ...failure, data: answer.data };
}

// readRetryAfter reads seconds. A date, which proxies may send, is ignored.
function readRetryAfter(text = "") {
  const seconds = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  return seconds < 2 ** 31 ? seconds : 0;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Amount);
}

function textOf(value) {
  return typeof value === "string" ? value : "";
}
