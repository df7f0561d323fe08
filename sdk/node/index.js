// The Node SDK of Coax. ../BEHAVIOUR.md describes what it does; index.d.ts has the types.
export { Amount } from "./lib/amount.js";
export { Client } from "./lib/client.js";
export { Code, Reason, Status, Warning } from "./lib/codes.js";
export {
  AccessDeniedError,
  AuthenticationError,
  CoaxError,
  ConflictError,
  InsufficientBalanceError,
  InvalidRequestError,
  NoAnswerError,
  NotFoundError,
  PendingError,
  ProviderError,
  RateLimitError,
  UnavailableError,
} from "./lib/errors.js";
