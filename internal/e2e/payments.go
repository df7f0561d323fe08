package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// samplePayments announces payments of the demo's operator, more than a page has, uploads a bank
// statement, and returns the routes of one payment, of the statement and of a line of it.
func (e *Env) samplePayments(t testing.TB) []sampleRoute {
	t.Helper()
	payments := admin.NewPayments(e.Node.Store, e.Node.Config.Payments, e.Now)
	yesterday := e.Now().Add(-24 * time.Hour)
	var announced admin.Announcement
	var lines []admin.BankLine
	for i := range 200 {
		amount, reference := money.Paise(int64(100_00+i)), fmt.Sprintf("631245%06d", i)
		lines = append(lines, admin.BankLine{PaidOn: yesterday, Amount: amount, Narration: "UPI/CR/" + reference + "/RAVI KUMAR/HDFC/ravicable", Reference: reference})
		if i%5 != 0 {
			continue
		}
		made, _, err := payments.Announce(context.Background(), admin.Payer{OperatorID: e.Demo.LCOID, Actor: "web:" + e.Demo.Operator.Username}, admin.NewAnnouncement{
			Amount: amount, Method: admin.MethodUPI, Reference: reference, PaidOn: yesterday,
		})
		if err != nil {
			t.Fatal(err)
		}
		announced = made
	}
	statement, _, err := e.Admin.ImportStatement(context.Background(), admin.ParsedStatement{FileName: "november.csv", Header: "sample", Columns: "{}", Lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/console/payments/statements/%d", statement.ID)
	return []sampleRoute{
		{"/console/payments/statements/{id}/{line}", path + "/1"},
		{"/console/payments/statements/{id}", path},
		{"/panel/add-money/{id}/withdraw", fmt.Sprintf("/panel/add-money/%d/withdraw", announced.ID)},
		{"/console/payments/{id}", fmt.Sprintf("/console/payments/%d", announced.ID)},
	}
}
