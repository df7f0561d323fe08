// A program that uses every exported name as its type says. It is compiled, not run, by
// `make openapi-lint`: tsc --strict.
import {
  AccessDeniedError,
  type Activation,
  Amount,
  type Attempt,
  AuthenticationError,
  type Balance,
  type Body,
  type Catalogue,
  Client,
  type ClientOptions,
  CoaxError,
  Code,
  ConflictError,
  type Customer,
  InsufficientBalanceError,
  InvalidRequestError,
  NoAnswerError,
  NotFoundError,
  type Operation,
  type OperationStatus,
  PendingError,
  type PendingOperation,
  type Plan,
  ProviderError,
  RateLimitError,
  Reason,
  type Renewal,
  Status,
  type Subscription,
  type SubscriptionQuery,
  type TransactionQuery,
  UnavailableError,
  Warning,
} from "./index.js";

const lines: string[] = [];
const options: ClientOptions = {
  baseUrl: "https://coax.example/api/v1",
  apiKey: "cxk_1",
  apiSecret: "cxs_1",
  caCert: null,
  connectTimeout: 10,
  timeout: 60,
  totalTimeout: 180,
  attempts: 6,
  pause: 0.5,
  maxPause: 30,
  maxRetryAfter: 120,
  waitUntilSettled: true,
  onAttempt: ({ call, number, status, code, requestId, duration, pause, error }: Attempt) => {
    lines.push(`${call} ${number} ${status} ${code} ${requestId} ${duration.toFixed(3)} ${pause?.toFixed(1)} ${error?.message}`);
  },
  clock: () => 0,
};
const client = new Client(options);

export async function everyCall(): Promise<void> {
  const activation: Activation = { full_name: "Asha Rao", mobile: "9876543210", plan_id: "BASIC-1" };
  const renewal: Body<Renewal> = { subscriber_id: "100001", plan_id: "BASIC-1", remark: "a field of a later version" };
  const activated: Operation = await client.activate(activation, "order-4711");
  const customer: Customer = activated.customer;
  const password: string | undefined = customer.password;
  const renewed = await client.renew(renewal, "order-4712");
  await client.renew('{"plan_id":"BASIC-1"}', "order-4713");
  await client.advanceRenew(new Uint8Array(), "order-4714");
  const status: OperationStatus = renewed.status;
  const charged: Amount = renewed.wallet.charged;
  const later: unknown = renewed.field_of_a_later_version;
  lines.push(password ?? "", charged.toString(), String(renewed.warnings.includes(Warning.COMBO_SECONDARY_FAILED)), String(later));

  const balance: Balance = await client.balance();
  const catalogue: Catalogue = await client.plans();
  const plan: Plan | undefined = catalogue.plans[0];
  const of: SubscriptionQuery = { mobile: "9876543210" };
  const subscription: Subscription = await client.subscription(of);
  const open: PendingOperation | undefined = subscription.pending_operations[0];
  const by: TransactionQuery = { idempotencyKey: "order-4711" };
  const found = await client.transaction(by);
  await client.awaitSettled("order-4711");
  await client.awaitSettled("order-4711", { timeout: 60 });
  const left: Amount = balance.wallet_balance.minus(plan?.price ?? Amount.parse("0.00")).plus(new Amount(1n));
  const order: -1 | 0 | 1 = left.compare(charged);
  lines.push(`${open?.status} ${found.reason === Reason.NOT_CONFIRMED} ${status === Status.SUCCESS} ${order} ${left.equals(charged)} ${left.toJSON()}`);
  const signature: string = client.sign("GET", "/api/v1/balance", null, null, 1, "0123456789abcdef");
  lines.push(signature, client.toJSON().baseUrl);
}

export function told(error: unknown): string {
  if (error instanceof InsufficientBalanceError) {
    return `${error.shortfall} is missing: ${error.walletBalance} of ${error.requiredAmount}`;
  }
  if (error instanceof PendingError || error instanceof NoAnswerError) {
    return error.undecided ? `later, ${error.operation?.status}` : `now: ${error.cause}`;
  }
  const classes = [
    AccessDeniedError, AuthenticationError, ConflictError, InvalidRequestError, NotFoundError, ProviderError, RateLimitError, UnavailableError,
  ];
  if (classes.some((one) => error instanceof one)) {
    return "refused";
  }
  if (!(error instanceof CoaxError)) {
    throw error;
  }
  const details = [
    error.requestId, error.attempts, error.retryAfter, error.fields?.["mobile"], error.previousTransactionId, error.openTransactionId,
    error.serverTime?.toISOString(), error.ip, error.data, error.toJSON(),
  ];
  return `${error.code === Code.INTERNAL_ERROR} ${error.status} ${details.join(" ")}`;
}

// @ts-expect-error: every operation needs a key
void client.renew({ plan_id: "BASIC-1" });
// @ts-expect-error: a number is a binary fraction
Amount.parse(199);
// @ts-expect-error: amounts are not added with +
lines.push(Amount.parse("1.00") + Amount.parse("2.00") + 1);
// @ts-expect-error: a result is read-only
new CoaxError().code = "OK";
