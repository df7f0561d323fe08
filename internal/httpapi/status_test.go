package httpapi

import (
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// The contract's error tables, written down a second time, so that no status changes by
// accident.
var promised = map[int][]fault.Code{
	200: {"OK"},
	202: {"PENDING_REVIEW"},
	400: {"INVALID_JSON", "MISSING_IDEMPOTENCY_KEY", "INVALID_IDEMPOTENCY_KEY"},
	401: {
		"MISSING_AUTH_HEADERS", "INVALID_API_KEY", "CREDENTIAL_REVOKED", "CREDENTIAL_EXPIRED",
		"TIMESTAMP_EXPIRED", "INVALID_NONCE", "INVALID_SIGNATURE", "REPLAY_DETECTED",
	},
	402: {"INSUFFICIENT_BALANCE"},
	403: {
		"HTTPS_REQUIRED", "LCO_NOT_FOUND", "LCO_INACTIVE", "API_ACCESS_BLOCKED", "API_DISABLED",
		"IP_NOT_WHITELISTED", "PERMISSION_DENIED",
	},
	404: {"NOT_FOUND", "SUBSCRIBER_NOT_FOUND", "TRANSACTION_NOT_FOUND"},
	405: {"METHOD_NOT_ALLOWED"},
	409: {
		"SUBSCRIBER_EXISTS", "PLAN_ALREADY_ACTIVE", "DUPLICATE_REQUEST", "OPERATION_IN_PROGRESS",
		"REQUEST_IN_PROGRESS",
	},
	413: {"PAYLOAD_TOO_LARGE"},
	415: {"UNSUPPORTED_MEDIA_TYPE"},
	422: {"VALIDATION_ERROR", "INVALID_PLAN", "IDEMPOTENCY_KEY_REUSED"},
	429: {"TOO_MANY_FAILED_ATTEMPTS", "RATE_LIMITED"},
	500: {"INTERNAL_ERROR"},
	502: {"PROVIDER_ERROR"},
	503: {"SERVICE_UNAVAILABLE", "PLANS_UNAVAILABLE"},
}

func TestStatusOf_MatchesContract(t *testing.T) {
	want := map[fault.Code]int{fault.BadRequest: 400}
	for status, codes := range promised {
		for _, code := range codes {
			if want[code] != 0 {
				t.Errorf("%s is promised twice", code)
			}
			want[code] = status
		}
	}
	for _, code := range fault.Contract {
		if _, known := codes[code]; !known {
			t.Errorf("%s has no entry in the codes", code)
		}
		if got := StatusOf(code); got != want[code] {
			t.Errorf("StatusOf(%s) = %d; want %d", code, got, want[code])
		}
		if codes[code].meaning == "" {
			t.Errorf("%s has no meaning", code)
		}
	}
	if got := StatusOf(fault.BadRequest); got != 400 {
		t.Errorf("StatusOf(BAD_REQUEST) = %d; want 400", got)
	}
	if got, want := len(codes), len(fault.Contract)+1; got != want {
		t.Errorf("the codes has %d entries; want the contract's codes and BAD_REQUEST, %d", got, want)
	}
}

func TestStatusOf_UnknownCodeIs500(t *testing.T) {
	if got := StatusOf("SURPRISE"); got != 500 {
		t.Errorf("StatusOf(SURPRISE) = %d; want 500", got)
	}
}
