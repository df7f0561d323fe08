// Renews subscribers from a table of orders: node renewals.js CREDENTIALS ORDERS
//
// CREDENTIALS is a JSON file such as .demo/demo.json. ORDERS is a CSV file with the columns order, subscriber_id,
// plan_id, state (open, done or failed) and transaction_id, without quotes.
//
// It may be killed at any moment and run again: no order is paid twice, and none is forgotten. The exit status is 1
// if an order is still open.
import fs from "node:fs";
import { Client, Code } from "../index.js";

// With these the order cannot succeed, now or later.
const FINAL = [
  Code.PROVIDER_ERROR,
  Code.VALIDATION_ERROR,
  Code.INVALID_PLAN,
  Code.SUBSCRIBER_NOT_FOUND,
  Code.IDEMPOTENCY_KEY_REUSED,
  Code.INVALID_IDEMPOTENCY_KEY,
];

const [credentials, table] = process.argv.slice(2);
if (table === undefined) {
  console.error("usage: node renewals.js CREDENTIALS ORDERS");
  process.exit(2);
}
const given = JSON.parse(fs.readFileSync(credentials, "utf8"));
const client = new Client({
  baseUrl: given.base_url,
  apiKey: given.api_key,
  apiSecret: given.api_secret,
  caCert: given.ca_cert,
});
const [header, ...orders] = load(table);
for (const order of orders) {
  if (order.state === "open") {
    await renew(order);
    store(table, [header, ...orders]);
  }
}
process.exitCode = orders.some((order) => order.state === "open") ? 1 : 0;

async function renew(order) {
  // The key follows from the order, so that every run uses the same one.
  const key = `renewal-of-order-${order.order}`;
  const renewal = { subscriber_id: order.subscriber_id, plan_id: order.plan_id };
  try {
    const operation = await client.renew(renewal, key);
    order.transaction_id = operation.transaction_id;
    order.state = "done";
    console.log(`order ${order.order}: renewed for ${operation.amount} until ${operation.expiry.new}`);
  } catch (error) {
    if (!error.undecided && FINAL.includes(error.code)) {
      order.state = "failed";
    }
    const what = order.state === "failed" ? "failed, nothing was charged" : "stays open";
    console.log(`order ${order.order}: ${what}: ${error.code || error.name}: ${error.message}`);
  }
}

function load(path) {
  const lines = fs.readFileSync(path, "utf8").split(/\r?\n/);
  const rows = lines.filter((line) => line !== "").map((line) => line.split(","));
  if (rows.some((row) => row.length !== rows[0].length)) {
    throw new Error(`${path} has rows of different lengths`);
  }
  return rows.map((row) => Object.fromEntries(rows[0].map((name, i) => [name, row[i]])));
}

// store replaces the table as a whole, on disk: half a table would forget orders.
function store(path, rows) {
  const text = rows.map((row) => `${Object.values(row).join(",")}\n`).join("");
  const file = fs.openSync(`${path}.new`, "w", 0o600);
  fs.writeFileSync(file, text);
  fs.fsyncSync(file);
  fs.closeSync(file);
  fs.renameSync(`${path}.new`, path);
}
