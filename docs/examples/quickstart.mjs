import { readFileSync } from "node:fs";
import { Client } from "../../sdk/node/index.js";

const demo = JSON.parse(readFileSync(".demo/demo.json", "utf8"));
const client = new Client({ baseUrl: demo.base_url, apiKey: demo.api_key, apiSecret: demo.api_secret, caCert: demo.ca_cert });
console.log(`The wallet holds ${(await client.balance()).wallet_balance}.`);

const customer = { full_name: "Meena Das", mobile: "9812345602", plan_id: "BASIC-1" };
const done = await client.activate(customer, "activation-of-order-5002");
console.log(`${done.plan.id} until ${done.expiry.new}, ${done.wallet.charged} charged: ${done.transaction_id}`);
