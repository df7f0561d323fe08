import { readFileSync } from "node:fs";
import { Client } from "../index.js";

const demo = JSON.parse(readFileSync(".demo/demo.json", "utf8"));
const client = new Client({ baseUrl: demo.base_url, apiKey: demo.api_key, apiSecret: demo.api_secret, caCert: demo.ca_cert });
const balance = await client.balance();
console.log(`${balance.wallet_balance}`);
const person = { full_name: "Asha Rao", mobile: "9812345678", plan_id: "BASIC-1", subscriber_id: "100001" };
const operation = await client.activate(person, "order-4710");
console.log(operation.customer.subscriber_id);
