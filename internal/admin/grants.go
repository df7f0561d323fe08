package admin

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

// GrantKind is how a login got access.
type GrantKind string

// What gives a staff login access. GrantedRole is recorded where the new role may
// approve and has rights that the old one did not have.
const (
	GrantedLogin    GrantKind = "created"
	GrantedPassword GrantKind = "password"
	GrantedTOTP     GrantKind = "totp"
	GrantedRole     GrantKind = "role"
)

// Grant records who gave a staff login access in the console. Actions on the command line
// leave no grant: the command line is the root of an installation.
type Grant struct {
	LoginID int64
	What    GrantKind
	Actor   string
	// WithoutApproval: nobody approved it. Otherwise there are two grants, one of the
	// proposer and one of the approver. See StaffAction.Grants for further ones.
	WithoutApproval bool
	// SawPassword: the login's current temporary password was shown to the actor.
	SawPassword bool
	At          time.Time
}

// Grants returns the grants that an action leaves, which replace earlier ones of the same
// kind. proposer is empty if the action needed no proposal. Everybody who controls the
// login of one of the two (see controllers) gets a grant, too: otherwise somebody could
// take a login over and grant access through it.
func (a StaffAction) Grants(staff StaffAccess, to login.Person, what GrantKind, proposer string) []Grant {
	if !a.Limited() {
		return nil
	}
	shown := what == GrantedLogin || what == GrantedPassword
	given := []Grant{{LoginID: to.ID, What: what, Actor: a.Actor, WithoutApproval: proposer == "", At: a.At, SawPassword: shown}}
	add := func(actor string, alone bool) {
		known := func(g Grant) bool { return g.Actor == actor }
		if actor != ConsoleActor(to) && !slices.ContainsFunc(given, known) {
			given = append(given, Grant{LoginID: to.ID, What: what, Actor: actor, WithoutApproval: alone, At: a.At})
		}
	}
	if proposer != "" {
		given = append(given, Grant{LoginID: to.ID, What: what, Actor: proposer, At: a.At})
	}
	for _, origin := range staff.controllers(a.Actor) {
		add(origin, proposer == "" || shown)
	}
	if proposer != "" {
		for _, origin := range staff.controllers(proposer) {
			add(origin, false)
		}
	}
	return given
}

// Approves reports whether a role may approve proposals.
func Approves(role login.Role) bool { return May(Role(role), ProposalApprove) }

// Raises reports whether a change of role adds rights, to a role that may approve.
func Raises(from, to login.Role) bool {
	if !Approves(to) {
		return false
	}
	return slices.ContainsFunc(Actions(), func(a Action) bool { return May(Role(to), a) && !May(Role(from), a) })
}

// RefuseWithoutApproval refuses to give access to a login that may approve, where
// another person can approve that.
func RefuseWithoutApproval() *Refusal {
	return Refuse("a login that may approve is created, raised or reset by two people: propose it, and let another administrator approve it")
}

// isRefusedWithoutApproval reports whether an error is a RefuseWithoutApproval.
func isRefusedWithoutApproval(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Form == RefuseWithoutApproval().Form
}

// StaffAccess is every staff login and who gave it access, at one moment.
type StaffAccess struct {
	People []login.Person
	Grants []Grant
}

// console is the prefix of an actor of the console; the username follows.
const console = "web:"

// Username is the username of an actor of the console; empty for any other actor.
func Username(actor string) string {
	name, is := strings.CutPrefix(actor, console)
	if !is {
		return ""
	}
	return name
}

// ConsoleActor is a person as the actor of actions in the console.
func ConsoleActor(p login.Person) string { return console + p.Username }

func (s StaffAccess) person(actor string) (login.Person, bool) {
	name := Username(actor)
	i := slices.IndexFunc(s.People, func(p login.Person) bool { return name != "" && p.Username == name })
	if i < 0 {
		return login.Person{}, false
	}
	return s.People[i], true
}

func (s StaffAccess) grants(actor string) []Grant {
	person, known := s.person(actor)
	if !known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Grants), func(g Grant) bool { return g.LoginID != person.ID })
}

// controllers returns the actor and everybody who controls the actor's login: they gave
// it access without approval or were shown its password, directly or through another login.
func (s StaffAccess) controllers(actor string) []string {
	found := []string{actor}
	for i := 0; i < len(found); i++ {
		for _, g := range s.grants(found[i]) {
			if (g.WithoutApproval || g.SawPassword) && !slices.Contains(found, g.Actor) {
				found = append(found, g.Actor)
			}
		}
	}
	return found
}

// CountedAsOne returns the people whose amounts count as one person's: the actor, and
// everybody who has a controller in common with the actor. Otherwise somebody could
// create logins to move more.
func (s StaffAccess) CountedAsOne(actor string) []string {
	people, own := []string{Person(actor)}, s.controllers(actor)
	for _, p := range s.People {
		shared := slices.ContainsFunc(s.controllers(ConsoleActor(p)), func(origin string) bool { return slices.Contains(own, origin) })
		if name := Person(ConsoleActor(p)); shared && !slices.Contains(people, name) {
			people = append(people, name)
		}
	}
	return people
}

// HasApprover reports whether an administrator other than the maker can approve what the
// maker proposes about a login, now or after NewLoginWait. The login's own person does not
// count: without a password they cannot sign in to approve a new one.
func (s StaffAccess) HasApprover(maker string, about int64) bool {
	return slices.ContainsFunc(s.People, func(p login.Person) bool {
		return p.ID != about && p.Role == login.Administrator && !p.Disabled && s.approvalConflict(maker, ConsoleActor(p)) == nil
	})
}

// HasFinanceApprover reports whether somebody in finance can approve the amounts that the maker
// proposes.
func (s StaffAccess) HasFinanceApprover(maker string) bool {
	return slices.ContainsFunc(s.People, func(p login.Person) bool {
		return p.Role == login.Finance && !p.Disabled && Approves(p.Role) && s.approvalConflict(maker, ConsoleActor(p)) == nil
	})
}

// MayApprove refuses the approval of a proposal by a checker who is its maker, whose
// login is disabled or has no role that allows it, who is not independent of the maker, or
// whose login was created, raised or reset in the console less than wait ago. A store calls
// it in the transaction that approves: the login may have changed since the page was shown.
func (s StaffAccess) MayApprove(p Proposal, checker string, now time.Time, wait time.Duration) error {
	if p.Maker == checker {
		return Refuse("proposal %d is your own: somebody else has to approve it", p.ID)
	}
	if err := s.CheckMaker(p); err != nil {
		return err
	}
	if person, known := s.person(checker); !known || person.Disabled || !Approves(person.Role) || !May(Role(person.Role), p.Action()) {
		return Refuse("%s has no login that may approve", checker)
	}
	if refusal := s.approvalConflict(p.Maker, checker); refusal != nil {
		return refusal
	}
	from := time.Time{}
	for _, g := range s.grants(checker) {
		if until := g.At.Add(wait); until.After(from) {
			from = until
		}
	}
	if now.Before(from) {
		// Rounded up, so that the time named is not too early.
		return Refuse("your login was created, raised or reset in the console a short while ago: it can approve from %s on", Moment(from.Add(time.Second-1).Truncate(time.Second)))
	}
	return nil
}

// CheckMaker refuses a proposal whose maker may no longer make it.
func (s StaffAccess) CheckMaker(p Proposal) error {
	if maker, known := s.person(p.Maker); known && !p.MakerMayPropose(maker) {
		return refuseMaker(p)
	}
	return nil
}

// MakerMayPropose reports whether the maker, as they are now, may still make the
// proposal. If not, it lapses.
func (p Proposal) MakerMayPropose(maker login.Person) bool {
	return !maker.Disabled && May(Role(maker.Role), ProposalMake) && May(Role(maker.Role), p.Action())
}

func refuseMaker(p Proposal) *Refusal {
	return Refuse("proposal %d expired, because the login of %s was disabled or may no longer propose this: somebody else has to make it again", p.ID, Actor(p.Maker))
}

// approvalConflict returns why a checker can never approve what a maker proposes; nil if
// they can.
func (s StaffAccess) approvalConflict(maker, checker string) *Refusal {
	if maker == checker {
		return Refuse("somebody else has to approve what you propose")
	}
	for _, g := range s.grants(checker) {
		if g.Actor == maker {
			return Refuse("%s %s: somebody else has to approve what they propose", Actor(maker), grantedToYou[g.What])
		}
	}
	for _, g := range s.grants(maker) {
		switch {
		case g.Actor != checker:
		case g.WithoutApproval:
			return Refuse("you gave %s access without a second approval: somebody else has to approve what they propose", Actor(maker))
		case g.SawPassword:
			return Refuse("you were shown the password of %s: somebody else has to approve what they propose", Actor(maker))
		}
	}
	theirs := s.controllers(maker)
	for _, origin := range s.controllers(checker) {
		if slices.Contains(theirs, origin) {
			return Refuse("your access and that of %s both come from %s alone: somebody else has to approve what they propose", Actor(maker), Actor(origin))
		}
	}
	return nil
}

var grantedToYou = map[GrantKind]Term{
	GrantedLogin:    Term("created your login"),
	GrantedPassword: Term("reset your password"),
	GrantedTOTP:     Term("reset your second factor"),
	GrantedRole:     Term("gave you your role"),
}
