import { Client } from "coax";

const client = new Client({
  baseUrl: process.env.COAX_BASE_URL,
  apiKey: process.env.COAX_API_KEY,
  apiSecret: process.env.COAX_API_SECRET,
  caCert: process.env.COAX_CA_CERT,
});
const catalogue = await client.plans();
for (const plan of catalogue.plans) {
  console.log(plan.id, String(plan.price));
}
