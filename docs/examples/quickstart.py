import json
import sys

sys.path.insert(0, "sdk/python")
import coax

with open(".demo/demo.json") as file:
    demo = json.load(file)
client = coax.Client(demo["base_url"], demo["api_key"], demo["api_secret"], demo["ca_cert"])
print(f"The wallet holds {client.balance().wallet_balance}.")

customer = {"full_name": "Ravi Iyer", "mobile": "9812345603", "plan_id": "BASIC-1"}
done = client.activate(customer, "activation-of-order-5003")
print(f"{done.plan.id} until {done.expiry.new}, {done.wallet.charged} charged: {done.transaction_id}")
