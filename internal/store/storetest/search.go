package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

func textSearches(h *harness) {
	s := h.fixture("10000")
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan}
	other.topUp(other.operator, "10000")
	s.importAll(s.operator, imported{"100001", "9800000001", "Asha Sharma", noon.Add(oneDay)}, imported{"100002", "9800000002", "Asha Rao", noon.Add(oneDay)})
	other.importAll(other.operator, imported{"200001", "9800000003", "Asha Patil", noon.Add(oneDay)})
	mine := s.settle(s.reserve(s.renewal("order-1", "100001")), operation.Success)
	draft := other.renewal("order-1", "200001")
	draft.ID = "CX-THEIRS-2"
	theirs := other.reserve(draft)
	other.settle(theirs, operation.Success)
	latest := s.renewal("order-2", "100001")
	latest.CreatedAt = noon.Add(oneDay)
	s.reserve(latest)

	service := report.New(h.Store, report.Config{Now: func() time.Time { return noon }, ScanLimit: 1})
	for _, row := range []struct {
		text          string
		ofMine, ofAll string // subscribers; transactions
		exact         bool
	}{
		{text: "asha", ofMine: "100001 100002", ofAll: "100001 100002 200001"},
		{text: "asha s", ofMine: "100001; CXorder-2 CXorder-1", ofAll: "100001; CXorder-2 CXorder-1"},
		{text: "patil", ofMine: "", ofAll: "200001; CX-THEIRS-2"},
		{text: "+91 98000-00001", ofMine: "100001; CXorder-2 CXorder-1", ofAll: "100001; CXorder-2 CXorder-1", exact: true},
		{text: "200001", ofMine: "", ofAll: "200001; CX-THEIRS-2", exact: true},
		{text: "order-1", ofMine: "; CXorder-1", ofAll: "; CXorder-1 CX-THEIRS-2"},
		{text: mine.ID, ofMine: "; CXorder-1", ofAll: "; CXorder-1"},
		{text: "cx-theirs-2", ofMine: "", ofAll: "; CX-THEIRS-2"},
		{text: "P-" + mine.ID, ofMine: "; CXorder-1", ofAll: "; CXorder-1"},
		{text: "P-CX-THEIRS-2", ofMine: "", ofAll: ""}, // not among the latest that are looked through
		{text: "R26-27/000001", ofMine: "; CXorder-1", ofAll: "; CXorder-1 CX-THEIRS-2"},
		{text: " r 26-27 / 1 ", ofMine: "; CXorder-1", ofAll: "; CXorder-1 CX-THEIRS-2"},
		{text: "26-27/000001", ofMine: "; CXorder-1", ofAll: "; CXorder-1 CX-THEIRS-2"},
		{text: "R26-27/000002", ofMine: "", ofAll: ""},
		{text: "R25-26/000001", ofMine: "", ofAll: ""},
		{text: "RV-nobody's", ofMine: "", ofAll: ""},
		{text: "P-nothing-1", ofMine: "", ofAll: ""},
		{text: " . ", ofMine: "", ofAll: ""},
		{text: "", ofMine: "", ofAll: ""},
		{text: "\x00\xff%_'", ofMine: "", ofAll: ""},
	} {
		for all, want := range map[bool]string{false: row.ofMine, true: row.ofAll} {
			found, err := service.Search(h.Context(), s.operator.ID, row.text, 10)
			if all {
				found, err = service.SearchAll(h.Context(), row.text, 10)
			}
			h.must(err)
			var searchedTo time.Time
			if found.MaybeProviders {
				operatorID := s.operator.ID
				if all {
					operatorID = 0
				}
				found.Transactions, searchedTo, err = service.ProviderTransaction(h.Context(), operatorID, row.text, 10)
				h.must(err)
			}
			var subscribers, transactions []string
			for _, one := range found.Subscribers {
				subscribers = append(subscribers, one.ID)
				if one.Exact != row.exact || (one.OperatorID == other.operator.ID) != (one.ID == "200001") {
					h.Errorf("%q finds %+v; exactly: %v", row.text, one, row.exact)
				}
			}
			for _, op := range found.Transactions {
				transactions = append(transactions, op.ID)
			}
			got := strings.Join(subscribers, " ")
			if len(transactions) > 0 {
				got += "; " + strings.Join(transactions, " ")
			}
			if got != want {
				h.Errorf("%q, of all %v: %q; want %q", row.text, all, got, want)
			}
			if cut := !searchedTo.IsZero(); cut != (strings.HasPrefix(row.text, "P-") || want == "" && (row.text == "200001" || row.text == "cx-theirs-2")) {
				h.Errorf("%q, of all %v: looked back to %v", row.text, all, searchedTo)
			}
		}
	}
	for limit, want := range map[int]bool{1: true, 2: true, 3: false} {
		found, err := service.SearchAll(h.Context(), "asha", limit)
		if h.must(err); found.MoreSubscribers != want || len(found.Subscribers) != min(limit, 3) {
			h.Errorf("%d of 3: %d, more %v", limit, len(found.Subscribers), found.MoreSubscribers)
		}
	}
	ids, err := h.OperatorsWithTerm(h.Context(), "asha", 10)
	if h.must(err); !slices.Equal(ids, []int64{s.operator.ID, other.operator.ID}) {
		h.Errorf("operators %v", ids)
	}
	if ids, err = h.OperatorsWithTerm(h.Context(), "asha", 1); err != nil || len(ids) != 1 {
		h.Errorf("operators %v, %v; want one", ids, err)
	}
}

// keySearches finds keys of all operators by the beginning of their hint.
func keySearches(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	issue := func(operatorID int64, hash byte, hint string) {
		_, err := h.IssueKey(h.Context(), staffAction("key issue"), access.Credential{
			OperatorID: operatorID, KeyHash: access.KeyHash{hash}, Hint: hint, SealedSecret: []byte("sealed"), Permissions: access.AllPermissions, CreatedAt: noon,
		})
		h.must(err)
	}
	issue(one.ID, 101, "cxk_aa11")
	issue(two.ID, 102, "cxk_aa22")
	issue(two.ID, 103, "cxk_bb33")
	for _, row := range []struct {
		hint  string
		limit int
		want  []string
	}{
		{"cxk_aa", 10, []string{"cxk_aa22", "cxk_aa11"}}, {"cxk_aa", 1, []string{"cxk_aa22"}}, {"cxk_aa11", 10, []string{"cxk_aa11"}},
		{"aa", 10, nil}, {"cxk_%", 10, nil},
	} {
		found, err := h.FindKeys(h.Context(), row.hint, row.limit)
		h.must(err)
		var hints []string
		for _, key := range found {
			hints = append(hints, key.Hint)
			if (key.OperatorID == one.ID) != (key.Hint == "cxk_aa11") {
				h.Errorf("%s is of operator %d", key.Hint, key.OperatorID)
			}
		}
		if !slices.Equal(hints, row.want) {
			h.Errorf("%q, at most %d: %v; want %v", row.hint, row.limit, hints, row.want)
		}
	}
}
