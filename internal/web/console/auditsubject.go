package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// auditedEntry is an audit entry with what it is about, as people call it.
type auditedEntry struct {
	shownEntry
	OperatorName string
	// Named is the subject in the visitor's language; Exactly is the id or reference that tells
	// it from others, if Named does not have it.
	Named, Exactly string
	// Amount is the money that the entry is about, as text; empty if there is none.
	Amount string
}

// Href returns the URL of the entry's page.
func (a auditedEntry) Href() string { return fmt.Sprintf("%s/%d", auditLogPath, a.ID) }

// auditSubjectStore reads what subjects of audit entries are called.
type auditSubjectStore interface {
	OperationsByID(ctx context.Context, ids []string) ([]operation.Operation, error)
	SubscriberNames(ctx context.Context, ids []string) (map[string]string, error)
}

// auditSubjects are the names of the operators, operations and customers that entries are
// about.
type auditSubjects struct {
	operators  map[int64]string
	operations map[string]operation.Operation
	customers  map[string]string
	T          func(english string, args ...any) string
}

// auditedEntries returns the entries with the names of their subjects, which take one read for
// each kind of subject.
func auditedEntries(v *web.Visit, store auditSubjectStore, entries []admin.AuditEntry, operators map[int64]string) ([]auditedEntry, error) {
	subjects := auditSubjects{operators: operators, operations: map[string]operation.Operation{}, T: v.T}
	if err := subjects.read(v.Context(), store, entries); err != nil {
		return nil, err
	}
	var all []auditedEntry
	for _, entry := range entries {
		one := auditedEntry{shownEntry: shownEntry{entry, v.Who}, OperatorName: operators[entry.OperatorID], Amount: subjects.amount(entry)}
		one.Named, one.Exactly = subjects.name(entry)
		all = append(all, one)
	}
	return all, nil
}

func (s *auditSubjects) read(ctx context.Context, store auditSubjectStore, entries []admin.AuditEntry) error {
	var operations, customers []string
	for _, entry := range entries {
		if id := operationOf(entry); id != "" {
			operations = append(operations, id)
		}
		if kind, id := cutSubject(entry.Subject); kind == subjectSubscriber || kind == subjectPassword {
			customers = append(customers, id)
		}
	}
	if len(operations) > 0 {
		slices.Sort(operations)
		found, err := store.OperationsByID(ctx, slices.Compact(operations))
		if err != nil {
			return err
		}
		for _, op := range found {
			s.operations[op.ID] = op
		}
	}
	if len(customers) > 0 {
		slices.Sort(customers)
		var err error
		if s.customers, err = store.SubscriberNames(ctx, slices.Compact(customers)); err != nil {
			return err
		}
	}
	return nil
}

// What subjects in the log begin with; an id follows.
const (
	subjectOperator     = "lco "
	subjectWallet       = "wallet of lco "
	subjectWhitelist    = "whitelist of lco "
	subjectImport       = "subscribers of lco "
	subjectCommission   = "commission "
	subjectSubscriber   = "subscriber "
	subjectPassword     = "app password of subscriber "
	subjectOperation    = "operation "
	subjectAddon        = "addon of "
	subjectException    = "exception "
	subjectProposal     = "proposal "
	subjectAnnouncement = "payment announcement "
	subjectStatement    = "bank statement "
	subjectPlan         = "plan "
	subjectKey          = "key "
	subjectLogin        = "login "
	subjectMasterKey    = "master key "
)

var subjectKinds = []string{
	subjectOperator, subjectWallet, subjectWhitelist, subjectImport, subjectCommission, subjectSubscriber, subjectPassword, subjectOperation, subjectAddon,
	subjectException, subjectProposal, subjectAnnouncement, subjectStatement, subjectPlan, subjectKey, subjectLogin, subjectMasterKey,
}

// cutSubject splits a subject of the log; the kind is empty if it is of none of them.
func cutSubject(subject string) (kind, id string) {
	for _, kind := range subjectKinds {
		if id, found := strings.CutPrefix(subject, kind); found {
			return kind, id
		}
	}
	return "", subject
}

// operationOf returns the id of the operation that an entry is about, empty if there is none.
func operationOf(entry admin.AuditEntry) string {
	switch kind, id := cutSubject(entry.Subject); kind {
	case subjectOperation, subjectAddon:
		return id
	case subjectException, subjectProposal:
		return stateOf(entry).text("transaction_id")
	}
	return ""
}

// name returns what an entry's subject is called, and what tells it from others of that name.
func (s *auditSubjects) name(entry admin.AuditEntry) (text, exactly string) {
	kind, id := cutSubject(entry.Subject)
	state := stateOf(entry)
	operator := s.operators[entry.OperatorID]
	if operator == "" {
		operator = s.T("Operator %s", fmt.Sprint(entry.OperatorID))
	}
	switch kind {
	case subjectOperator:
		return operator, ""
	case subjectWallet:
		_, reference, _ := strings.Cut(id, ", reference ")
		return s.T("Wallet of %s", operator), reference
	case subjectWhitelist:
		return s.T("Whitelist of %s", operator), ""
	case subjectImport:
		return s.T("Subscribers of %s", operator), ""
	case subjectCommission:
		month, _, _ := strings.Cut(id, " ")
		return s.T("Commission of %s", operator), month
	case subjectSubscriber, subjectPassword:
		customer, known := s.customers[id]
		if !known {
			customer, id = id, ""
		}
		if kind == subjectPassword {
			return s.T("App password of %s", customer), id
		}
		return customer, id
	case subjectOperation:
		return id, s.operations[id].CustomerName
	case subjectAddon:
		return s.T("Add-on of %s", id), s.operations[id].CustomerName
	case subjectException:
		if of := operationOf(entry); of != "" {
			return s.T("Exception of %s", of), s.operations[of].CustomerName
		}
	case subjectProposal:
		return s.proposal(state, id)
	case subjectAnnouncement:
		return s.T("Announced payment %s", id), state.text("reference")
	case subjectStatement:
		return s.T("Bank statement %s", state.text("file")), ""
	case subjectPlan:
		return orID(state.text("name"), id)
	case subjectKey:
		return s.T("API key %s", state.text("key")+"…"), ""
	case subjectLogin:
		return orID(state.text("name"), state.text("username"))
	case subjectMasterKey:
		return s.T("Master key %s", id), ""
	}
	if entry.Subject == admin.MaintenanceSubject {
		return s.T("Maintenance"), ""
	}
	return entry.Subject, ""
}

// proposal names a proposal by what it proposes.
func (s *auditSubjects) proposal(state entryState, id string) (text, exactly string) {
	p := proposal{Proposal: admin.Proposal{Kind: admin.ProposalKind(state.text("kind")), Confirm: string(state["confirm"]) == "true"}}
	exactly = s.T("Proposal %s", id)
	_, wanted := changeOf(state)
	for _, about := range []string{state.text("reference"), state.text("transaction_id"), wanted.text("name"), wanted.text("username")} {
		if about != "" {
			return s.T(p.Title()), exactly + " · " + about
		}
	}
	return s.T(p.Title()), exactly
}

// orID returns a name and an id, or the id alone if there is no name.
func orID(name, id string) (text, exactly string) {
	if name == "" {
		return id, ""
	}
	return name, id
}

// amount returns the money that an entry is about: what moved in a wallet, what was paid,
// proposed or charged, or a plan's price.
func (s *auditSubjects) amount(entry admin.AuditEntry) string {
	before, after := readEntryState(entry.Before), readEntryState(entry.After)
	if is, known := after.amount("wallet_balance"); known {
		was, _ := before.amount("wallet_balance")
		return look.Rupees(is.Sub(was))
	}
	state := stateOf(entry)
	if amount, known := state.amount("amount"); known && amount.Paise() != 0 {
		return look.Rupees(amount)
	}
	if was, is := changeOf(state); is != nil {
		return planPrice(was, is)
	}
	if kind, _ := cutSubject(entry.Subject); kind == subjectPlan {
		return planPrice(before, after)
	}
	if kind, id := cutSubject(entry.Subject); kind == subjectOperation {
		if op, found := s.operations[id]; found {
			return look.Rupees(op.Amount)
		}
	}
	return ""
}

// planPrice returns the price of a plan that is new, or both if it changed.
func planPrice(before, after entryState) string {
	was, had := before.amount("price")
	is, has := after.amount("price")
	switch {
	case !has || had && was == is:
		return ""
	case had && was != (money.Amount{}):
		return look.Rupees(was) + " → " + look.Rupees(is)
	}
	return look.Rupees(is)
}

// entryState is the before or after of an audit entry; nil if it has none, or is a list.
type entryState map[string]json.RawMessage

func readEntryState(text string) (state entryState) {
	if json.Unmarshal([]byte(text), &state) != nil {
		return nil
	}
	return state
}

// stateOf returns an entry's state after the action, or before it of what was removed.
func stateOf(entry admin.AuditEntry) entryState {
	if state := readEntryState(entry.After); state != nil {
		return state
	}
	return readEntryState(entry.Before)
}

// changeOf returns what a proposal would change, before and after; nil if it is about money.
func changeOf(state entryState) (was, is entryState) {
	is = readEntryState(state.text("change"))
	if plan, found := is["plan"]; found {
		return readEntryState(string(is["was"])), readEntryState(string(plan))
	}
	return nil, is
}

// text returns a field that is a text; empty if it is none.
func (s entryState) text(field string) (text string) {
	if json.Unmarshal(s[field], &text) != nil {
		return ""
	}
	return text
}

// amount returns a field that is an amount.
func (s entryState) amount(field string) (money.Amount, bool) {
	amount, err := money.Parse(string(s[field]))
	return amount, err == nil
}
