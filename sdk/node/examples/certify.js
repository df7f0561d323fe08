// The program that coax certify drives: one JSON order per line of input, one outcome per line of output.
import { createInterface } from "node:readline";
import { Client } from "../index.js";

const methods = { activate: "activate", renew: "renew", "advance-renew": "advanceRenew" };

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const answer = { id: order.id, outcome: "success", transaction_id: "", code: "OK" };
  try {
    const client = new Client({ baseUrl: order.base_url, apiKey: order.api_key, apiSecret: order.api_secret, caCert: order.ca_cert });
    const operation = await client[methods[order.operation]](order.body, order.idempotency_key);
    answer.transaction_id = operation.transaction_id;
    answer.charged = String(operation.wallet.charged);
  } catch (error) {
    answer.outcome = error.undecided ? "pending" : "failed";
    answer.transaction_id = error.operation?.transaction_id ?? "";
    answer.code = error.code ?? "";
  }
  console.log(JSON.stringify(answer));
}
