import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
operation = client.activate(
    {
        "full_name": "Asha Rao",
        "mobile": "9812345678",
        "plan_id": "BASIC-1",
        "subscriber_id": "100001",
    },
    "order-5001",
)
print(operation.transaction_id, operation.status, operation.wallet.charged)
