"""Results: dictionaries with the wire's field names, readable as attributes, too.

The annotations say what the service sends; they also decide what is read as an amount or as
a nested result. A documented field that is missing from an answer is None as an attribute.
Fields that this version does not know are kept."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Type, TypeVar
from typing import get_args, get_origin, get_type_hints

R = TypeVar("R", bound="Record")


class Secret:
    """A text that is not printed. ``reveal()`` returns it; a pickled one returns None."""

    __slots__ = ("reveal",)
    reveal: Callable[[], Optional[str]]

    def __init__(self, text: Optional[str] = None) -> None:
        self.reveal = lambda: text  # in a closure, which no dump shows

    def __repr__(self) -> str:
        return "[secret]"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Any:
        return Secret, ()


class Record(Dict[str, Any]):
    """An object of an answer: ``record.status`` and ``record["status"]``.

    A customer's password is stored as a Secret, so that printing, copying into a plain dict
    or encoding as JSON does not show it. By its name it is read as text."""

    __slots__ = ()
    _types: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        cls._types = {name: hint for name, hint in get_type_hints(cls).items() if not name.startswith("_")}

    @classmethod
    def read(cls: Type[R], data: object) -> R:
        """Read decoded JSON. ValueError if a known field cannot be what the service sends."""
        if not isinstance(data, dict):
            raise ValueError(f"{cls.__name__} is not an object")
        record = cls()
        for name, value in data.items():
            record[name] = _read_field(name, value, cls._types.get(name))
        return record

    def __getitem__(self, name: str) -> Any:
        return _reveal(super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        return _reveal(super().get(name, default))

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in self._types:
            return None
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")


def _reveal(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


def _read_field(name: str, value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kind is Decimal:
        return read_amount(value)
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.read(value)
    if get_origin(kind) is list and not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    if name == "password" and isinstance(value, str):
        return Secret(value)
    if isinstance(value, list):
        element = get_args(kind)[0] if get_origin(kind) is list else None
        return [_read_field("", item, element) for item in value]
    if isinstance(value, dict):
        return Record.read(value)
    return value


_PAISA = Decimal("0.01")


def read_amount(value: object) -> Decimal:
    """Read an amount from JSON that was decoded with parse_float=Decimal, with two decimals."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ValueError(f"{value!r} is no amount")
    # Not the program's context, whose precision and rounding may be anything.
    exact = Context(prec=40, traps=[InvalidOperation, Inexact])
    try:
        return Decimal(value).quantize(_PAISA, context=exact)
    except ArithmeticError:
        raise ValueError(f"{value} is no amount with two decimals") from None


class Customer(Record):
    __slots__ = ()
    subscriber_id: str
    name: str
    mobile: str
    #: Only if the service generated it, and only in the first answer to an activation: store
    #: it, even if that answer is PENDING_REVIEW.
    password: Optional[str]
    #: These are in the result of ``subscription`` only.
    email: Optional[str]
    connection_type: Optional[str]


class BoughtPlan(Record):
    __slots__ = ()
    id: str
    name: str
    #: A month has 30 days.
    duration_months: int


class NamedPlan(Record):
    __slots__ = ()
    id: str
    name: str


class Expiry(Record):
    """The change of a subscriber's expiry; ``YYYY-MM-DD HH:MM:SS`` in Indian time."""

    __slots__ = ()
    previous: Optional[str]
    new: Optional[str]
    #: The first day of a cycle that was booked in advance, ``YYYY-MM-DD``.
    start_date: Optional[str]


class Wallet(Record):
    """The change of the operator's wallet by an operation."""

    __slots__ = ()
    before: Decimal
    after: Decimal
    charged: Decimal
    refunded: bool
    held: bool


class Operation(Record):
    """An activation, a renewal or an advance renewal."""

    __slots__ = ()
    #: The service's id; store it with the order.
    transaction_id: str
    idempotency_key: str
    #: ``activate``, ``renew`` or ``advance_renew``.
    operation: str
    #: One of ``Status``.
    status: str
    #: ``api``, or ``web`` for operations in the operator's panel.
    channel: str
    customer: Customer
    provider: str
    provider_transaction_id: Optional[str]
    plan: BoughtPlan
    #: The catalogue's price; ``wallet`` says whether it was charged.
    amount: Decimal
    currency: str
    expiry: Expiry
    wallet: Wallet
    #: See ``Warnings``.
    warnings: List[str]
    created_at: str
    completed_at: Optional[str]
    #: Why the operation failed; ``reason`` is one of ``Reason``.
    provider_message: Optional[str]
    reason: Optional[str]
    #: What a repeated request would be answered now; in look-ups only.
    result_code: Optional[str]
    result_message: Optional[str]
    #: True if this is the result of an earlier request with the same key. It is a header of
    #: the answer, not a field of the wire.
    replayed: bool


class Balance(Record):
    """The operator's wallet."""

    __slots__ = ()
    lco_id: int
    wallet_balance: Decimal
    currency: str
    low_balance: bool
    as_of: str
    note: str


class Plan(Record):
    __slots__ = ()
    id: str
    name: str
    description: str
    price: Decimal
    #: In months of 30 days.
    duration: int
    #: ``standard`` or ``combo``.
    type: str


class Catalogue(Record):
    """The plans for sale. Prices may be up to about five minutes old."""

    __slots__ = ()
    provider: str
    currency: str
    plans: List[Plan]


class PendingOperation(Record):
    """An unsettled operation of a subscriber."""

    __slots__ = ()
    transaction_id: str
    idempotency_key: str
    operation: str
    status: str
    plan: NamedPlan
    amount: Decimal
    created_at: str


class Subscription(Record):
    """A subscriber with the current plan."""

    __slots__ = ()
    customer: Customer
    provider: str
    plan: NamedPlan
    #: ``active``, ``expired``, or ``pending`` while the activation is not settled.
    status: str
    active: bool
    expiry_date: Optional[str]
    days_remaining: int
    created_at: str
    renewed_at: Optional[str]
    last_provider_transaction: Optional[str]
    pending_operations: List[PendingOperation]
