package generator

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

func TestAccount_RenewalsRestPerPlan(t *testing.T) {
	account := NewAccount(1, "key", "secret")
	account.Subscribers = []string{"a", "b", "c"}
	const plans = 2
	now := time.Now()
	last := map[[2]int]time.Time{}
	renewed := 0
	for range 1000 {
		now = now.Add(load.RestPeriod / 10)
		subscriber, plan, found := account.renewal(plans, now)
		if !found {
			continue
		}
		renewed++
		pair := [2]int{subscriber, plan}
		if before, again := last[pair]; again && now.Sub(before) < load.RestPeriod {
			t.Fatalf("subscriber %d is renewed with plan %d after %s", subscriber, plan, now.Sub(before))
		}
		last[pair] = now
	}
	if len(last) != plans*len(account.Subscribers) {
		t.Errorf("%d pairs were ever renewed; want all %d", len(last), plans*len(account.Subscribers))
	}
	// Six pairs in ten tenths of a rest leave some waiting, and not much.
	if renewed < 400 || renewed == 1000 {
		t.Errorf("%d of 1000 times there was somebody to renew; want most, and not all", renewed)
	}
}

func TestAccount_SkipsOpenRenewals(t *testing.T) {
	account := NewAccount(1, "key", "secret")
	account.Subscribers = []string{"a", "b", "c"}
	account.aside[1] = true
	now := time.Now()
	for range 4 {
		subscriber, _, found := account.renewal(2, now)
		if !found || subscriber == 1 {
			t.Fatalf("subscriber %d is renewed (%v); want one of the others", subscriber, found)
		}
	}
	if subscriber, _, found := account.renewal(2, now); found {
		t.Errorf("subscriber %d is renewed; want nobody, for all rest", subscriber)
	}
	account.aside[0], account.aside[2] = true, true
	if subscriber, _, found := account.renewal(2, now.Add(time.Hour)); found {
		t.Errorf("subscriber %d is renewed; want nobody, for all are aside", subscriber)
	}
	account.NothingOpen()
	renewed := map[int]bool{}
	for range account.Subscribers {
		subscriber, _, found := account.renewal(2, now.Add(time.Hour))
		renewed[subscriber] = found
	}
	if !renewed[0] || !renewed[1] || !renewed[2] {
		t.Errorf("renewed are %v; want all three, for nothing is open any more", renewed)
	}
}
