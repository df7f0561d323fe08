import os

import coax

client = coax.Client(
    os.environ["COAX_BASE_URL"], os.environ["COAX_API_KEY"], os.environ["COAX_API_SECRET"], os.environ["COAX_CA_CERT"]
)
catalogue = client.plans()
for plan in catalogue.plans:
    print(plan.id, plan.price)
