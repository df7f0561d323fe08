import { Client } from "coax";

const client = new Client({
  baseUrl: process.env.COAX_BASE_URL,
  apiKey: process.env.COAX_API_KEY,
  apiSecret: process.env.COAX_API_SECRET,
  caCert: process.env.COAX_CA_CERT,
});
const operation = await client.activate(
  {
    full_name: "Asha Rao",
    mobile: "9812345678",
    plan_id: "BASIC-1",
    subscriber_id: "100001",
  },
  "order-5001",
);
console.log(operation.transaction_id, operation.status, String(operation.wallet.charged));
