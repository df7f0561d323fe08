// Signs the request: runs before every request of the collection.
const crypto = require("crypto-js");

// canonical returns the query as it is signed: decoded, encoded in one way only, sorted.
function canonical(query) {
  const encode = (text) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
  return query
    .filter((p) => !p.disabled)
    .map((p) => [encode(p.key ?? ""), encode(p.value ?? "")])
    .sort(([a, v], [b, w]) => (a < b ? -1 : a > b ? 1 : v < w ? -1 : v > w ? 1 : 0))
    .map((pair) => pair.join("="))
    .join("&");
}

const body = pm.request.method === "POST" ? pm.variables.replaceIn(pm.request.body.raw) : "";
if (pm.request.method === "POST") {
  pm.request.body.raw = body; // sent exactly as signed
}
const query = pm.request.url.query.all().map((p) => ({ ...p, value: pm.variables.replaceIn(p.value ?? "") }));
const timestamp = String(Math.floor(Date.now() / 1000));
const nonce = crypto.lib.WordArray.random(16).toString(crypto.enc.Hex);
const lines = [
  pm.request.method,
  "/api/v1/" + pm.request.url.path[pm.request.url.path.length - 1],
  pm.request.method === "GET" ? canonical(query) : "",
  timestamp,
  nonce,
  crypto.SHA256(body).toString(crypto.enc.Hex),
];
const signature = crypto.HmacSHA256(lines.join("\n"), pm.variables.get("api_secret")).toString(crypto.enc.Hex);
pm.request.headers.upsert({ key: "X-API-Key", value: pm.variables.get("api_key") });
pm.request.headers.upsert({ key: "X-Timestamp", value: timestamp });
pm.request.headers.upsert({ key: "X-Nonce", value: nonce });
pm.request.headers.upsert({ key: "X-Signature", value: signature });
