import { Code } from "./codes.js";
import { errorOf } from "./errors.js";
import { percentEncode } from "./signing.js";

const KEY = /^[A-Za-z0-9_.:-]{8,100}$/;

// Half of a surrogate pair, which UTF-8 cannot encode.
const LONE_SURROGATE = /\p{Surrogate}/u;

// checkKey throws without a well-formed idempotency key.
export function checkKey(key, name) {
  if (key === undefined || key === null || key === "") {
    throw refused(
      name,
      Code.MISSING_IDEMPOTENCY_KEY,
      "An operation needs an idempotency key; make one, store it, and call with it.",
    );
  }
  if (typeof key !== "string" || !KEY.test(key)) {
    throw refused(
      name,
      Code.INVALID_IDEMPOTENCY_KEY,
      "An idempotency key has 8 to 100 characters from A-Z, a-z, 0-9, _ . : and -.",
    );
  }
}

// encodeBody returns the bytes that are signed and sent. Text and bytes are sent as they
// are.
export function encodeBody(body, name) {
  if (body instanceof Uint8Array) {
    const copy = Buffer.from(body); // the caller may change it between two attempts
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(copy);
    } catch {
      throw notUTF8(name, {});
    }
    return copy;
  }
  if (typeof body === "string") {
    if (LONE_SURROGATE.test(body)) {
      throw notUTF8(name, {});
    }
    return Buffer.from(body, "utf8");
  }
  const invalid = {};
  const text = JSON.stringify(body, (field, value) => {
    if (LONE_SURROGATE.test(field) || (typeof value === "string" && LONE_SURROGATE.test(value))) {
      invalid[field] = "It is not in UTF-8.";
    }
    return value;
  });
  if (text?.[0] !== "{") {
    throw new TypeError("the body has to be an object, or a string or bytes with one in JSON");
  }
  if (Object.keys(invalid).length > 0) {
    throw notUTF8(name, invalid);
  }
  return Buffer.from(text, "utf8");
}

// encodeQuery leaves out what is missing.
export function encodeQuery(query, name) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  for (const [field, value] of given) {
    if (LONE_SURROGATE.test(value)) {
      throw notUTF8(name, { [field]: "It is not in UTF-8." });
    }
  }
  return given.map(([field, value]) => `${field}=${percentEncode(String(value))}`).join("&");
}

function notUTF8(name, fields) {
  return refused(name, Code.VALIDATION_ERROR, "Texts have to be in UTF-8.", fields);
}

function refused(name, code, why, fields) {
  return errorOf({ code, message: `${name}: ${why} Nothing was sent.`, fields });
}
