import { Client } from "coax";

const client = new Client({
  baseUrl: process.env.COAX_BASE_URL,
  apiKey: process.env.COAX_API_KEY,
  apiSecret: process.env.COAX_API_SECRET,
  caCert: process.env.COAX_CA_CERT,
});
const subscription = await client.subscription({ mobile: "9812345678" });
console.log(subscription.plan.id, subscription.status, subscription.expiry_date);
