"""The program that coax certify drives: one JSON order per line of input, one outcome per line of output."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))  # to run it from a checkout
import coax

for line in sys.stdin:
    order = json.loads(line)
    client = coax.Client(order["base_url"], order["api_key"], order["api_secret"], order.get("ca_cert") or None)
    call = getattr(client, order["operation"].replace("-", "_"))
    answer = {"id": order["id"], "outcome": "success", "code": ""}
    try:
        operation = call(order["body"], order["idempotency_key"])
        answer["charged"] = str(operation.wallet.charged)
    except coax.Error as error:
        operation = error.operation
        answer.update(outcome="pending" if error.undecided else "failed", code=error.code)
    answer["transaction_id"] = operation.transaction_id if operation else ""
    print(json.dumps(answer), flush=True)
