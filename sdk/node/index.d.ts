// Types of the Node SDK of Coax. Durations are in seconds. ../BEHAVIOUR.md describes the
// behaviour.

/** An exact sum of money, printed and encoded in JSON as rupees: "199.00". */
export class Amount {
  /** @param paise 100 paise are a rupee */
  constructor(paise: bigint);
  /** Reads rupees, such as "199.00". */
  static parse(text: string): Amount;
  readonly paise: bigint;
  plus(other: Amount): Amount;
  minus(other: Amount): Amount;
  compare(other: Amount): -1 | 0 | 1;
  equals(other: unknown): boolean;
  toString(): string;
  toJSON(): string;
}

export interface ClientOptions {
  /** https://HOST/api/v1; plain HTTP on loopback only. */
  baseUrl: string;
  apiKey: string;
  apiSecret: string;
  /** Path of the certificate authority, for a service with its own. */
  caCert?: string | null;
  /** To connect, TLS included: 10 s. */
  connectTimeout?: number;
  /** One attempt: 60 s. */
  timeout?: number;
  /** One call with its attempts, its pauses and waiting for the outcome: 180 s. */
  totalTimeout?: number;
  /** Attempts of one call: 6. With 1 nothing is retried. */
  attempts?: number;
  /** The pause after the first attempt: 0.5 s. It doubles each time. */
  pause?: number;
  /** The longest pause: 30 s. */
  maxPause?: number;
  /** A longer Retry-After ends the call: 120 s. */
  maxRetryAfter?: number;
  /** Wait for the outcome after 202: true. Otherwise the call ends with PENDING_REVIEW. */
  waitUntilSettled?: boolean;
  /** Called after every attempt. An error in it is ignored. */
  onAttempt?: (attempt: Attempt) => void;
  /** The clock of the timestamps, in milliseconds as Date.now, for tests. */
  clock?: () => number;
}

/** One attempt of a call, for logs and metrics. */
export interface Attempt {
  /** Method and endpoint, without the query: "POST renew". */
  call: string;
  /** From 1. */
  number: number;
  /** 0 if no answer came. */
  status: number;
  /** Empty if the answer is not the service's. */
  code: string;
  requestId: string;
  duration: number;
  /** The pause before the next attempt; null after the last. */
  pause: number | null;
  /** Why no answer came. */
  error: Error | null;
}

/** A body's fields, or its JSON as text or bytes, which is sent as it is. */
export type Body<Fields> = Fields | (Fields & { [name: string]: unknown }) | string | Uint8Array;

export interface Activation {
  full_name: string;
  mobile: string;
  plan_id: string;
  email?: string;
  /** If absent the service generates one, and returns it in the first answer only. */
  password?: string;
  connection_type?: string;
  address?: string;
  subscriber_id?: string;
}

export interface Renewal {
  subscriber_id?: string;
  /** Used without subscriber_id only. */
  mobile?: string;
  plan_id: string;
}

export type SubscriptionQuery =
  | string
  | { subscriberId?: string; mobile?: string }
  | { subscriber_id?: string; mobile?: string };

export type TransactionQuery =
  | string
  | { transactionId?: string; idempotencyKey?: string }
  | { transaction_id?: string; idempotency_key?: string };

/** One client serves any number of concurrent calls. */
export class Client {
  /** Throws a TypeError if an option is invalid. */
  constructor(options: ClientOptions);
  /** Creates a subscriber and activates a plan, for its price. */
  activate(body: Body<Activation>, idempotencyKey: string): Promise<Operation>;
  /** Renews a subscriber, for the plan's price. */
  renew(body: Body<Renewal>, idempotencyKey: string): Promise<Operation>;
  /** Books a subscriber's next cycle, for the plan's price. */
  advanceRenew(body: Body<Renewal>, idempotencyKey: string): Promise<Operation>;
  balance(): Promise<Balance>;
  plans(): Promise<Catalogue>;
  /** Reads a subscriber, by id or else by mobile number. */
  subscription(of: SubscriptionQuery): Promise<Subscription>;
  /** Reads an operation, by id or else by key; also one that failed. */
  transaction(of: TransactionQuery): Promise<Operation>;
  /** Polls an operation until it is settled, for at most 600 s unless said otherwise. */
  awaitSettled(idempotencyKey: string, options?: { timeout?: number } | number): Promise<Operation>;
  /** The signature in hex. The path begins with /api/v1/; the query is without "?". */
  sign(
    method: string,
    path: string,
    query: string | null,
    body: string | Uint8Array | null,
    timestamp: string | number,
    nonce: string,
  ): string;
  /** Address and key; not the secret. */
  toJSON(): { baseUrl: string; apiKey: string };
}

/** A field that this version of the SDK does not know is kept. */
interface Extensible {
  [name: string]: any;
}

/** Times are "YYYY-MM-DD HH:MM:SS" in Indian time. */
export interface Operation extends Extensible {
  transaction_id: string;
  idempotency_key: string;
  operation: "activate" | "renew" | "advance_renew";
  status: OperationStatus;
  channel: "api" | "web";
  customer: Customer;
  provider: string;
  provider_transaction_id: string | null;
  plan: { id: string; name: string; duration_months: number };
  /** The catalogue's price; wallet says whether it was charged. */
  amount: Amount;
  currency: string;
  expiry: { previous: string | null; new: string | null; start_date: string | null };
  wallet: { before: Amount; after: Amount; charged: Amount; refunded: boolean; held: boolean };
  warnings: string[];
  created_at: string;
  completed_at: string | null;
  /** Why it failed, for people. */
  provider_message?: string;
  /** Why it failed: one of Reason. */
  reason?: string;
  /** What a repeated request would return now. Set by look-ups. */
  result_code?: string;
  result_message?: string;
  /** Whether this is the result of an earlier request with the same key. */
  replayed: boolean;
}

export interface Customer extends Extensible {
  subscriber_id: string;
  name: string;
  mobile: string;
  /** Only in the first answer to an activation. Not printed. */
  readonly password?: string;
}

export interface Balance extends Extensible {
  lco_id: number;
  wallet_balance: Amount;
  currency: string;
  low_balance: boolean;
  /** With its offset, unlike other times. */
  as_of: string;
  note: string;
}

export interface Catalogue extends Extensible {
  provider: string;
  currency: string;
  plans: Plan[];
}

export interface Plan extends Extensible {
  id: string;
  name: string;
  description: string;
  price: Amount;
  /** In months of 30 days. */
  duration: number;
  type: "standard" | "combo";
}

export interface Subscription extends Extensible {
  customer: { subscriber_id: string; name: string; mobile: string; email: string; connection_type: string };
  provider: string;
  plan: { id: string; name: string };
  status: "active" | "expired" | "pending";
  active: boolean;
  expiry_date: string | null;
  days_remaining: number;
  created_at: string | null;
  renewed_at: string | null;
  last_provider_transaction: string | null;
  pending_operations: PendingOperation[];
}

export interface PendingOperation extends Extensible {
  transaction_id: string;
  idempotency_key: string;
  operation: "activate" | "renew" | "advance_renew";
  status: OperationStatus;
  plan: { id: string; name: string };
  amount: Amount;
  created_at: string;
}

/** The class of all errors that a call ends with. */
export class CoaxError extends Error {
  /** Empty if no answer of the service came. */
  readonly code: string;
  /** The HTTP status; 0 if no answer came. */
  readonly status: number;
  /** Identifies the request to support. */
  readonly requestId: string;
  readonly attempts: number;
  /** Seconds; 0 if the answer names none. */
  readonly retryAfter: number;
  /** The operation may have been carried out: call again later with the same key. */
  readonly undecided: boolean;
  /** VALIDATION_ERROR: a message for each invalid field. */
  readonly fields?: { [name: string]: string };
  /** INSUFFICIENT_BALANCE */
  readonly shortfall?: Amount;
  readonly walletBalance?: Amount;
  readonly requiredAmount?: Amount;
  /** DUPLICATE_REQUEST: the earlier operation. */
  readonly previousTransactionId?: string;
  /** OPERATION_IN_PROGRESS: the customer's other operation. */
  readonly openTransactionId?: string;
  /** TIMESTAMP_EXPIRED: the service's clock. */
  readonly serverTime?: Date;
  /** IP_NOT_WHITELISTED: the address that the service saw. */
  readonly ip?: string;
  /** The operation, if the answer has it; without an answer's data only its key and status. */
  readonly operation?: Partial<Operation>;
  /** The answer's data, unless it is an operation. */
  readonly data?: any;
  /** Why no answer came. */
  readonly cause?: unknown;
  toJSON(): object;
}
export class InvalidRequestError extends CoaxError {}
export class AuthenticationError extends CoaxError {}
export class AccessDeniedError extends CoaxError {}
export class RateLimitError extends CoaxError {}
export class InsufficientBalanceError extends CoaxError {}
export class NotFoundError extends CoaxError {}
export class ConflictError extends CoaxError {}
export class UnavailableError extends CoaxError {}
export class ProviderError extends CoaxError {}
export class PendingError extends CoaxError {}
export class NoAnswerError extends CoaxError {}

type Names<Name extends string> = { readonly [N in Name]: N };

/** Result codes. */
export const Code: Names<
  | "OK" | "PENDING_REVIEW" | "REQUEST_IN_PROGRESS" | "PROVIDER_ERROR" | "HTTPS_REQUIRED" | "BAD_REQUEST" | "NOT_FOUND"
  | "METHOD_NOT_ALLOWED" | "MISSING_AUTH_HEADERS" | "INVALID_API_KEY" | "CREDENTIAL_REVOKED" | "CREDENTIAL_EXPIRED"
  | "TIMESTAMP_EXPIRED" | "INVALID_NONCE" | "INVALID_SIGNATURE" | "REPLAY_DETECTED" | "PAYLOAD_TOO_LARGE"
  | "TOO_MANY_FAILED_ATTEMPTS" | "INTERNAL_ERROR" | "SERVICE_UNAVAILABLE" | "LCO_NOT_FOUND" | "LCO_INACTIVE"
  | "API_ACCESS_BLOCKED" | "API_DISABLED" | "IP_NOT_WHITELISTED" | "PERMISSION_DENIED" | "RATE_LIMITED"
  | "UNSUPPORTED_MEDIA_TYPE" | "INVALID_JSON" | "MISSING_IDEMPOTENCY_KEY" | "INVALID_IDEMPOTENCY_KEY"
  | "VALIDATION_ERROR" | "INVALID_PLAN" | "IDEMPOTENCY_KEY_REUSED" | "INSUFFICIENT_BALANCE" | "SUBSCRIBER_EXISTS"
  | "SUBSCRIBER_NOT_FOUND" | "TRANSACTION_NOT_FOUND" | "PLAN_ALREADY_ACTIVE" | "DUPLICATE_REQUEST"
  | "OPERATION_IN_PROGRESS" | "PLANS_UNAVAILABLE"
>;
/** Why an operation failed. */
export const Reason: Names<"PROVIDER_REJECTED" | "PROVIDER_UNREACHABLE" | "NOT_CONFIRMED" | "REJECTED_BY_REVIEW">;
/** What a successful operation may warn of. */
export const Warning: Names<"COMBO_SECONDARY_FAILED">;
/** The states of an operation. */
export const Status: {
  readonly PROCESSING: "processing";
  readonly SUCCESS: "success";
  readonly FAILED: "failed";
  readonly NEEDS_REVIEW: "needs_review";
};
export type OperationStatus = (typeof Status)[keyof typeof Status];
