import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))  # to run it from a checkout
import coax


def log(attempt):
    print(attempt.call, attempt.number, attempt.status, attempt.code, attempt.pause)


with open(".demo/demo.json") as file:
    demo = json.load(file)
client = coax.Client(demo["base_url"], demo["api_key"], demo["api_secret"], demo["ca_cert"], timeout=30, on_attempt=log)
try:
    operation = client.renew({"subscriber_id": "100001", "plan_id": "FAMILY-1"}, "order-4711")
except coax.Error as error:
    if error.undecided:
        print("It may have been carried out: keep the key, and call again later with the same one.")
    elif isinstance(error, coax.InsufficientBalanceError):
        print(f"Nothing was charged: top up {error.shortfall}, and call again with the same key.")
    elif isinstance(error, coax.ProviderError):
        print(f"Nothing was charged: {error.operation.reason}. A new attempt needs a new key.")
    else:
        print(f"Refused, and nothing was charged: {error}")
else:
    print(f"Done: store {operation.transaction_id}. It cost {operation.wallet.charged}.")
