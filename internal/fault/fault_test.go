package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestTheContractHasFortyOneCodesEachOnce(t *testing.T) {
	seen := map[Code]bool{}
	for _, code := range Contract {
		if seen[code] {
			t.Errorf("%s is listed twice", code)
		}
		seen[code] = true
	}
	if len(Contract) != 41 {
		t.Errorf("%d codes listed; the contract has 41", len(Contract))
	}
	if seen[BadRequest] {
		t.Errorf("%s is ours, not the contract's", BadRequest)
	}
}

func TestAPlainErrorBecomesInternalErrorAndKeepsItsTextInside(t *testing.T) {
	inner := errors.New("disk /dev/sda1 on fire")
	got := From(fmt.Errorf("settle CX1: %w", inner))
	if got.Code != InternalError {
		t.Errorf("code = %s; want INTERNAL_ERROR", got.Code)
	}
	if !errors.Is(got, inner) {
		t.Error("the cause is lost; the log needs it")
	}
	if want := "Something went wrong on our side. Retry with the same Idempotency-Key."; got.Message != want {
		t.Errorf("message = %q; want the fixed text", got.Message)
	}
}

func TestAWrappedRefusalIsFoundAndCopiesDoNotShareData(t *testing.T) {
	base := New(IPNotWhitelisted, "not from there")
	one := base.With("ip", "192.0.2.1")
	two := one.With("ip", "192.0.2.2")
	if len(base.Data) != 0 || one.Data["ip"] != "192.0.2.1" || two.Data["ip"] != "192.0.2.2" {
		t.Errorf("data leaked between copies: %v %v %v", base.Data, one.Data, two.Data)
	}
	if !Is(fmt.Errorf("judge: %w", two), IPNotWhitelisted) {
		t.Error("a wrapped refusal lost its code")
	}
	if CodeOf(nil) != OK {
		t.Errorf("CodeOf(nil) = %s; want OK", CodeOf(nil))
	}
}
