import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
operation = client.renew(
    {
        "subscriber_id": "100001",
        "plan_id": "FAMILY-1",
    },
    "order-5002",
)
print(operation.transaction_id, operation.status, operation.wallet.charged)
