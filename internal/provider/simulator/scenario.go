package simulator

import (
	"slices"
	"strings"
	"sync"

	"github.com/coaxhq/coax/internal/catalogue"
)

// Outcome is the simulated outcome of an order.
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
	Unknowable        Outcome = "unknowable"          // not carried out, never answered, status and void fail
	ResetApplied      Outcome = "reset_applied"       // carried out, the connection dropped
)

// Outcomes lists every outcome by its digit.
var Outcomes = []Outcome{
	Success, Reject, TimeoutApplied, TimeoutNotApplied, GatewayError,
	WrongReference, AddonFails, Slow, Unknowable, ResetApplied,
}

// OutcomeFor returns the outcome of a mobile number without a script: 90000Sxxxx
// selects the outcome with the digit S, any other number success.
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

// Mode is the state of the whole provider.
type Mode string

// A provider that is down drops every connection before it reads a call; one that
// is slow delays every answer.
const (
	ModeUp   Mode = "up"
	ModeDown Mode = "down"
	ModeSlow Mode = "slow"
)

// settings are set by the control API. They are not recorded: a restart resets
// them.
type settings struct {
	mu            sync.Mutex
	mode          Mode
	catalogueDown bool
	// reversalsMissing: the provider has no call to undo orders.
	reversalsMissing bool
	scripts          map[string][]Outcome
	withdrawn        map[string]bool
}

func newSettings() *settings {
	return &settings{mode: ModeUp, scripts: map[string][]Outcome{}, withdrawn: map[string]bool{}}
}

func (s *settings) currentMode() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// setScript replaces the outcomes of the next orders for a mobile.
func (s *settings) setScript(mobile string, outcomes []Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[mobile] = slices.Clone(outcomes)
}

// next returns the outcome of an order: the script's, or the number's.
func (s *settings) next(mobile string, role catalogue.Role) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.scripts[mobile]
	if len(script) == 0 {
		return OutcomeFor(mobile)
	}
	outcome, rest := script[0], script[1:]
	if outcome == AddonFails && role == catalogue.Main && len(rest) == 0 {
		// It applies to the add-on, whose order comes next.
		return outcome
	}
	s.scripts[mobile] = rest
	if len(rest) == 0 {
		delete(s.scripts, mobile)
	}
	return outcome
}

// sellable lists the components that are for sale now.
func (s *settings) sellable() []catalogue.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(Components(), func(c catalogue.Component) bool { return s.withdrawn[c.Code] })
}

// roleOf returns the role of a component; false if it is not for sale.
func (s *settings) roleOf(code string) (catalogue.Role, bool) {
	for _, component := range s.sellable() {
		if component.Code == code {
			return component.Role, true
		}
	}
	return "", false
}
