import { createHash, createHmac } from "node:crypto";

// signature returns the hex HMAC-SHA256 of a request. The key is the secret's text, or a
// KeyObject of it.
export function signature(key, { method, path, query, body, timestamp, nonce }) {
  // Only a-z: toUpperCase turns other letters into ASCII ones, such as the long s.
  const upper = method.replace(/[a-z]/g, (letter) => letter.toUpperCase());
  const lines = [
    upper,
    path,
    upper === "POST" ? "" : canonicalQuery(query),
    timestamp,
    nonce,
    createHash("sha256").update(body).digest("hex"),
  ];
  return createHmac("sha256", key).update(lines.join("\n")).digest("hex");
}

// canonicalQuery returns a raw query decoded, encoded again in one way only, and sorted.
function canonicalQuery(raw) {
  if (raw === "") {
    return "";
  }
  const pairs = bytesOf(raw)
    .split("&")
    .map((part) => {
      const [, name, value = ""] = /^([^=]*)=?([^]*)$/.exec(part);
      return [encode(decode(name)), encode(decode(value))];
    });
  // By name, then by value. Joined texts sort differently, because "=" is after "-".
  pairs.sort(([name, value], [otherName, otherValue]) => compare(name, otherName) || compare(value, otherValue));
  return pairs.map((pair) => pair.join("=")).join("&");
}

// percentEncode encodes a text as a name or a value of a query.
export function percentEncode(text) {
  return encode(bytesOf(text));
}

// bytesOf returns a string with a character for each byte of the text's UTF-8, so that
// bytes that are not UTF-8 survive decoding.
function bytesOf(text) {
  return Buffer.from(text, "utf8").toString("latin1");
}

function decode(bytes) {
  return bytes.replace(/\+/g, " ").replace(/%([0-9A-Fa-f]{2})/g, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
}

function encode(bytes) {
  return bytes.replace(
    /[^A-Za-z0-9\-_.~]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
