import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
balance = client.balance()
print(balance.wallet_balance, balance.currency)
