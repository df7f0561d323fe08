import { readFileSync } from "node:fs";
import { Client, InsufficientBalanceError, ProviderError } from "../index.js";

const demo = JSON.parse(readFileSync(".demo/demo.json", "utf8"));
const client = new Client({
  baseUrl: demo.base_url,
  apiKey: demo.api_key,
  apiSecret: demo.api_secret,
  caCert: demo.ca_cert,
  timeout: 30,
  onAttempt: ({ call, number, status, code, pause }) => console.log(call, number, status, code, pause),
});
try {
  const operation = await client.renew({ subscriber_id: "100001", plan_id: "FAMILY-1" }, "order-4711");
  console.log(`Done: store ${operation.transaction_id}. It cost ${operation.wallet.charged}.`);
} catch (error) {
  if (error.undecided) {
    console.log("It may have been carried out: keep the key, and call again later with the same one.");
  } else if (error instanceof InsufficientBalanceError) {
    console.log(`Nothing was charged: top up ${error.shortfall}, and call again with the same key.`);
  } else if (error instanceof ProviderError) {
    console.log(`Nothing was charged: ${error.operation.reason}. A new attempt needs a new key.`);
  } else {
    console.log(`Refused, and nothing was charged: ${error.message}`);
  }
}
