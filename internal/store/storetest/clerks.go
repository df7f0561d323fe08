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

var clerkTests = []test{
	{"an act has its origin, and the chain proves it", originsAreChained},
	{"a role does what it may, and nothing else", rolesHold},
}

var limits = admin.Limits{ApprovalAbove: rupees("1000"), NewLoginWait: 24 * time.Hour}

// sealer stands for the master key where no key is ever opened again.
type sealer struct{}

func (sealer) Seal(access.Secret, int64, access.KeyHash) ([]byte, error) {
	return []byte("sealed"), nil
}

// clerk is the service of somebody in the console, at noon.
func (h *house) clerk(name string, role admin.Role) *admin.Service {
	return h.clerkAt(name, role, noon)
}

// clerkAt is the service of somebody in the console. Who may propose has a login, which
// the command line made.
func (h *house) clerkAt(name string, role admin.Role, now time.Time) *admin.Service {
	if admin.May(role, admin.ProposalMake) {
		h.hire(name, role)
	}
	return h.deskOf(name, role, now)
}

// deskOf is the service of somebody in the console, with a login or without.
func (h *house) deskOf(name string, role admin.Role, now time.Time) *admin.Service {
	service := admin.NewService(h.Store, sealer{}, "web:"+name, func() time.Time { return now })
	return service.WithRole(role, limits).WithOrigin(netip.MustParseAddr("192.0.2.7"))
}

// hire makes a login on the command line, unless there is one.
func (h *house) hire(name string, role admin.Role) login.Account {
	h.Helper()
	account := newAccount(name)
	account.Role = login.Role(role)
	_, err := h.CreateLogin(h.Context(), act("login create"), account)
	if _, there := err.(*admin.Refusal); err != nil && !there {
		h.Fatal(err)
	}
	return h.known(name)
}

func originsAreChained(h *house) {
	h.operator("from nowhere")
	s := h.shop("0")
	_, err := s.clerk("asha", admin.Administrator).AllowAddress(s.Context(), s.operator.ID, "192.0.2.1")
	s.must(err)
	acts := s.acts()
	last := acts[len(acts)-1]
	if last.Origin != "192.0.2.7" || acts[0].Origin != "" {
		s.Errorf("origins %q and %q; want none and 192.0.2.7", acts[0].Origin, last.Origin)
	}
	previous := acts[len(acts)-2].Hash
	if !bytes.Equal(last.ChainHash(previous), last.Hash) {
		s.Error("the act does not follow from the one before")
	}
	for _, origin := range []string{"", "192.0.2.8"} {
		tampered := last
		tampered.Origin = origin
		if bytes.Equal(tampered.ChainHash(previous), last.Hash) {
			s.Errorf("its origin could be made %q unseen", origin)
		}
	}
}

func rolesHold(h *house) {
	s := h.shop("0")
	s.hire("asha", admin.Finance)
	before := len(s.acts())
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
		err := row.do(s.clerk("asha", row.role))
		s.refused(row.what, err)
		if err != nil && !strings.Contains(err.Error(), "does not allow") {
			s.Errorf("%s: %v; want it to name the role", row.what, err)
		}
	}
	p := s.proposed("5000", "NEFT-1")
	_, err := s.clerk("binu", admin.Support).Approve(s.Context(), p.ID)
	s.refused("support's approval", err)
	s.money("after all", "0", "0")
	if after := len(s.acts()); after != before+1 {
		s.Errorf("%d acts were logged; want the proposal's alone", after-before)
	}
	if list, err := s.Whitelist(s.Context(), s.operator.ID); err != nil || len(list) != 0 {
		s.Errorf("the whitelist is %v, %v", list, err)
	}
}
