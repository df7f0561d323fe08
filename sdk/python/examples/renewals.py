"""Renews subscribers from a table of orders. It may be killed at any moment and run again: no
order is paid twice, and none is forgotten.

    renewals.py CREDENTIALS ORDERS

CREDENTIALS is a JSON file such as .demo/demo.json. ORDERS is a CSV file with the columns order,
subscriber_id, plan_id, state (open, done or failed) and transaction_id. The exit status is 1 if
an order is still open.
"""

import csv
import json
import os
import sys

# Only to run it from a checkout, without installing the SDK.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import coax

# Nothing was charged, and calling again would not help. After every other error the order stays open.
FINAL = (coax.Code.PROVIDER_ERROR, coax.Code.SUBSCRIBER_NOT_FOUND, coax.Code.INVALID_PLAN, coax.Code.VALIDATION_ERROR)


def renew(client, order):
    """Carry out one order and note what became of it."""
    # The key follows from the order's number, so it is the same in every run.
    key = "renewal-of-order-" + order["order"]
    body = {"subscriber_id": order["subscriber_id"], "plan_id": order["plan_id"]}
    try:
        operation = client.renew(body, key)
    except coax.Error as error:
        if not error.undecided and error.code in FINAL:
            order["state"] = "failed"
        print(f"order {order['order']}: {order['state']}: {error}", flush=True)
        return
    order["state"] = "done"
    order["transaction_id"] = operation.transaction_id
    print(f"order {order['order']}: done: {operation.wallet.charged} {operation.currency}", flush=True)


def connect(path):
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    return coax.Client(given["base_url"], given["api_key"], given["api_secret"], given.get("ca_cert"))


def load(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def open_ones(orders):
    return [order for order in orders if order["state"] == "open"]


def store(path, orders):
    """Replace the table as a whole, on disk: half a table would forget orders."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, orders[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(orders)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: renewals.py CREDENTIALS ORDERS")
    client = connect(sys.argv[1])
    orders = load(sys.argv[2])
    for order in open_ones(orders):
        renew(client, order)
        store(sys.argv[2], orders)
    sys.exit(1 if open_ones(orders) else 0)


main()
