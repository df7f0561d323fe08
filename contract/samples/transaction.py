import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
operation = client.transaction(idempotency_key="order-5001")
print(operation.transaction_id, operation.status, operation.wallet.charged)
