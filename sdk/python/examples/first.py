import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))  # to run it from a checkout
import coax

with open(".demo/demo.json") as file:
    demo = json.load(file)
client = coax.Client(demo["base_url"], demo["api_key"], demo["api_secret"], demo["ca_cert"])
print(client.balance().wallet_balance)
new = {"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1", "subscriber_id": "100001"}
print(client.activate(new, "order-4710").customer.subscriber_id)
