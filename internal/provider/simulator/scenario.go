package simulator

import (
	"slices"
	"strings"
	"sync"

	"github.com/coaxhq/coax/internal/catalogue"
)

// Outcome is how one order goes.
type Outcome string

// The ten outcomes, in the order of their digits in a mobile number.
const (
	Success           Outcome = "success"
	Reject            Outcome = "reject"
	TimeoutApplied    Outcome = "timeout_applied"     // carried out, never answered
	TimeoutNotApplied Outcome = "timeout_not_applied" // neither carried out nor answered
	GatewayError      Outcome = "gateway_error"       // 503, not carried out
	WrongReference    Outcome = "wrong_reference"     // carried out, the answer names another reference
	AddonFails        Outcome = "addon_fails"         // an add-on is rejected, a main component works
	Slow              Outcome = "slow"                // carried out and answered after a while
	Unknowable        Outcome = "unknowable"          // not carried out, never answered, and no word about it later
	ResetApplied      Outcome = "reset_applied"       // carried out, the connection dropped
)

// Outcomes lists every outcome by its digit.
var Outcomes = []Outcome{
	Success, Reject, TimeoutApplied, TimeoutNotApplied, GatewayError,
	WrongReference, AddonFails, Slow, Unknowable, ResetApplied,
}

// OutcomeFor is what a mobile number alone asks for: 90000Sxxxx picks the
// outcome with the digit S, any other number success.
func OutcomeFor(mobile string) Outcome {
	rest, special := strings.CutPrefix(mobile, "90000")
	if !special || !isMobile(mobile) {
		return Success
	}
	return Outcomes[rest[0]-'0']
}

func isMobile(text string) bool {
	return len(text) == 10 && strings.Trim(text, "0123456789") == ""
}

// Mode is how the provider as a whole is doing.
type Mode string

// A provider that is down drops every connection before it has read a call; one
// that is slow answers everything after a while.
const (
	ModeUp   Mode = "up"
	ModeDown Mode = "down"
	ModeSlow Mode = "slow"
)

// steering is what the simulator was told about how to behave. None of it is
// part of its books: a restart forgets it.
type steering struct {
	mu            sync.Mutex
	mode          Mode
	catalogueDown bool
	scripts       map[string][]Outcome
	withdrawn     map[string]bool
}

func newSteering() *steering {
	return &steering{mode: ModeUp, scripts: map[string][]Outcome{}, withdrawn: map[string]bool{}}
}

func (s *steering) currentMode() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// setScript replaces what the next orders for a mobile will meet.
func (s *steering) setScript(mobile string, outcomes []Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[mobile] = slices.Clone(outcomes)
}

// next takes the outcome of an order: the script's, or the number's.
func (s *steering) next(mobile string, role catalogue.Role) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.scripts[mobile]
	if len(script) == 0 {
		return OutcomeFor(mobile)
	}
	outcome, rest := script[0], script[1:]
	if outcome == AddonFails && role == catalogue.Main && len(rest) == 0 {
		// It speaks of the add-on, which is still to come.
		return outcome
	}
	s.scripts[mobile] = rest
	if len(rest) == 0 {
		delete(s.scripts, mobile)
	}
	return outcome
}

// sellable lists what the provider sells now.
func (s *steering) sellable() []catalogue.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(Components(), func(c catalogue.Component) bool { return s.withdrawn[c.Code] })
}

// roleOf is the role of a component that is for sale; false if it is not.
func (s *steering) roleOf(code string) (catalogue.Role, bool) {
	for _, component := range s.sellable() {
		if component.Code == code {
			return component.Role, true
		}
	}
	return "", false
}
