import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
subscription = client.subscription(mobile="9812345678")
print(subscription.plan.id, subscription.status, subscription.expiry_date)
