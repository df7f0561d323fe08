package storetest

import (
	"bytes"
	"net/netip"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var roleTests = []test{
	{"an audit entry's origin is part of the chain", originsAreChained},
	{"a role allows its own actions only", rolesHold},
}

var limits = admin.Limits{ApprovalAbove: rupees("1000"), NewLoginWait: 24 * time.Hour}

// sealer replaces the master key in tests that never open a secret.
type sealer struct{}

func (sealer) Seal(access.Secret, int64, access.KeyHash) ([]byte, error) {
	return []byte("sealed"), nil
}

// consoleUser returns the service of a console user, at noon.
func (h *harness) consoleUser(name string, role admin.Role) *admin.Service {
	return h.consoleUserAt(name, role, noon)
}

// consoleUserAt returns the service of a console user. If the role may propose, the
// user gets a login, created on the command line.
func (h *harness) consoleUserAt(name string, role admin.Role, now time.Time) *admin.Service {
	if admin.May(role, admin.ProposalMake) {
		h.createLogin(name, role)
	}
	return h.serviceOf(name, role, now)
}

// serviceOf returns the service of a console user, with or without a login.
func (h *harness) serviceOf(name string, role admin.Role, now time.Time) *admin.Service {
	service := admin.NewService(h.Store, sealer{}, "web:"+name, func() time.Time { return now })
	return service.WithRole(role, limits).WithOrigin(netip.MustParseAddr("192.0.2.7"))
}

// createLogin creates a login on the command line, unless it exists.
func (h *harness) createLogin(name string, role admin.Role) login.Account {
	h.Helper()
	account := newAccount(name)
	account.Role = login.Role(role)
	_, err := h.CreateLogin(h.Context(), staffAction("login create"), account)
	if _, there := err.(*admin.Refusal); err != nil && !there {
		h.Fatal(err)
	}
	return h.known(name)
}

func originsAreChained(h *harness) {
	h.operator("from nowhere")
	s := h.fixture("0")
	_, err := s.consoleUser("asha", admin.Administrator).AllowAddress(s.Context(), s.operator.ID, "192.0.2.1")
	s.must(err)
	auditEntries := s.auditEntries()
	last := auditEntries[len(auditEntries)-1]
	if last.Origin != "192.0.2.7" || auditEntries[0].Origin != "" {
		s.Errorf("origins %q and %q; want none and 192.0.2.7", auditEntries[0].Origin, last.Origin)
	}
	previous := auditEntries[len(auditEntries)-2].Hash
	if !bytes.Equal(last.ChainHash(previous), last.Hash) {
		s.Error("the audit entry does not follow from the one before")
	}
	for _, origin := range []string{"", "192.0.2.8"} {
		tampered := last
		tampered.Origin = origin
		if bytes.Equal(tampered.ChainHash(previous), last.Hash) {
			s.Errorf("its origin could be changed to %q undetected", origin)
		}
	}
}

func rolesHold(h *harness) {
	s := h.fixture("0")
	s.createLogin("asha", admin.Finance)
	before := len(s.auditEntries())
	for _, row := range []struct {
		what string
		role admin.Role
		do   func(*admin.Service) error
	}{
		{"a viewer's whitelist", admin.Viewer, func(d *admin.Service) error {
			return first(d.AllowAddress(s.Context(), s.operator.ID, "192.0.2.1"))
		}},
		{"support's top-up", admin.Support, func(d *admin.Service) error { return first(d.SubmitTopUp(s.Context(), s.paid("5", "r"))) }},
		{"support's proposal", admin.Support, func(d *admin.Service) error { return first(d.SubmitTopUp(s.Context(), s.paid("5000", "r"))) }},
		{"finance's key", admin.Finance, func(d *admin.Service) error {
			return first(d.IssueKey(s.Context(), s.operator.ID, access.AllPermissions))
		}},
		{"a deletion without a role", "", func(d *admin.Service) error { return d.DeleteOperator(s.Context(), s.operator.ID) }},
	} {
		err := row.do(s.consoleUser("asha", row.role))
		s.refused(row.what, err)
		if err != nil && !strings.Contains(err.Error(), "does not allow") {
			s.Errorf("%s: %v; want it to name the role", row.what, err)
		}
	}
	p := s.proposed("5000", "NEFT-1")
	_, err := s.consoleUser("binu", admin.Support).Approve(s.Context(), p.ID)
	s.refused("support's approval", err)
	s.money("after all", "0", "0")
	if after := len(s.auditEntries()); after != before+1 {
		s.Errorf("%d audit entries were written; want the proposal's alone", after-before)
	}
	if list, err := s.Whitelist(s.Context(), s.operator.ID); err != nil || len(list) != 0 {
		s.Errorf("the whitelist is %v, %v", list, err)
	}
}
