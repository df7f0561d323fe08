"""Wrong: takes an answer with an unknown field or code for a failure; orders that were paid for count as failed."""
import client

CODES = set("""API_ACCESS_BLOCKED API_DISABLED BAD_REQUEST CREDENTIAL_EXPIRED CREDENTIAL_REVOKED DUPLICATE_REQUEST HTTPS_REQUIRED
IDEMPOTENCY_KEY_REUSED INSUFFICIENT_BALANCE INTERNAL_ERROR INVALID_API_KEY INVALID_IDEMPOTENCY_KEY INVALID_JSON INVALID_NONCE
INVALID_PLAN INVALID_SIGNATURE IP_NOT_WHITELISTED LCO_INACTIVE LCO_NOT_FOUND METHOD_NOT_ALLOWED MISSING_AUTH_HEADERS
MISSING_IDEMPOTENCY_KEY NOT_FOUND OK OPERATION_IN_PROGRESS PAYLOAD_TOO_LARGE PENDING_REVIEW PERMISSION_DENIED PLANS_UNAVAILABLE
PLAN_ALREADY_ACTIVE PROVIDER_ERROR RATE_LIMITED REPLAY_DETECTED REQUEST_IN_PROGRESS SERVICE_UNAVAILABLE SUBSCRIBER_EXISTS
SUBSCRIBER_NOT_FOUND TIMESTAMP_EXPIRED TOO_MANY_FAILED_ATTEMPTS TRANSACTION_NOT_FOUND UNSUPPORTED_MEDIA_TYPE VALIDATION_ERROR""".split())
FIELDS = set("""after amount before channel charged code completed_at created_at currency customer data duration_months expiry fields
held id idempotency_key ip message mobile name new operation password plan previous previous_transaction_id provider provider_message
provider_transaction_id reason refunded request_id required_amount result_code result_message server_time shortfall start_date
status subscriber_id success transaction_id wallet wallet_balance warnings""".split())


class Call(client.Call):
    def decide(self, step, answer):
        if answer.code and not (answer.code in CODES and known(answer.envelope)):
            return client.Outcome("failed", answer.code, self.transaction_id)
        return super().decide(step, answer)


def known(answer):
    nested = [value for name, value in answer.items() if isinstance(value, dict) and name != "fields"]
    return FIELDS.issuperset(answer) and all(known(value) for value in nested)
