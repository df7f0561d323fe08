"""The Python SDK of Coax: it activates and renews subscribers and books renewals in advance,
from an operator's own billing software.

Every operation costs money, so each one is named by an idempotency key that the caller makes
and stores before calling. Whatever happens to the call, the same key asks about the same
operation, and it is never charged twice::

    client = coax.Client(base_url, api_key, api_secret)
    try:
        operation = client.renew({"subscriber_id": "100001", "plan_id": "BASIC-1"}, "order-4711")
    except coax.Error as error:
        if error.undecided:
            ...  # the outcome is not known yet: call again later with the same key

sdk/BEHAVIOUR.md has every rule."""

from .codes import Code, Reason, Status, Warnings
from .client import Client
from .errors import (
    AccessDeniedError,
    AuthenticationError,
    ConflictError,
    Error,
    InsufficientBalanceError,
    InvalidRequestError,
    NoAnswerError,
    NotFoundError,
    PendingError,
    ProviderError,
    RateLimitError,
    UnavailableError,
)
from .exchange import VERSION as __version__
from .exchange import Attempt
from .results import (
    Balance,
    BoughtPlan,
    Catalogue,
    Customer,
    Expiry,
    NamedPlan,
    Operation,
    PendingOperation,
    Plan,
    Record,
    Secret,
    Subscription,
    Wallet,
)

__all__ = [
    "AccessDeniedError",
    "Attempt",
    "AuthenticationError",
    "Balance",
    "BoughtPlan",
    "Catalogue",
    "Client",
    "Code",
    "ConflictError",
    "Customer",
    "Error",
    "Expiry",
    "InsufficientBalanceError",
    "InvalidRequestError",
    "NamedPlan",
    "NoAnswerError",
    "NotFoundError",
    "Operation",
    "PendingError",
    "PendingOperation",
    "Plan",
    "ProviderError",
    "RateLimitError",
    "Reason",
    "Record",
    "Secret",
    "Status",
    "Subscription",
    "UnavailableError",
    "Wallet",
    "Warnings",
    "__version__",
]
