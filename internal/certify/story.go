package certify

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

//go:embed stories/*.json
var storyFiles embed.FS

// Story is one situation that a program is put into. README.md of the folder describes the
// fields.
type Story struct {
	Name string `json:"-"`
	// About says what happens; Costs what a wrong program does to money or people.
	About string `json:"about"`
	Costs string `json:"costs"`
	// Guide is the section of the documentation to read.
	Guide string `json:"guide"`

	Wallet      string              `json:"wallet"`
	Provider    []simulator.Outcome `json:"provider"`
	Clock       float64             `json:"clock"`
	Certificate string              `json:"certificate"`
	RateLimit   *rateLimit          `json:"rate_limit"`
	Line        []step              `json:"line"`
	Polls       []step              `json:"polls"`
	Orders      []storyOrder        `json:"orders"`
	AtOnce      bool                `json:"at_once"`
	// Amounts means that the story is about the amounts that the program books.
	Amounts bool `json:"amounts"`
	// Limit is how many seconds the program has for each order.
	Limit float64 `json:"limit"`
	// OpenAfter is the time after which an order may be without an outcome.
	OpenAfter float64 `json:"may_stay_open_after"`
}

type rateLimit struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
}

// step is what happens to one request.
type step struct {
	line.Fault
	// Then is what happens after the work and before an answer is lost: "kill the program",
	// or a change of the account.
	Then string `json:"then"`
}

const (
	redirect    = "redirect"    // to an address that nobody may send a request to
	maintenance = "maintenance" // known keys are answered, new ones refused
	killIt      = "kill the program"
	defaultFor  = 45 // seconds
)

type storyOrder struct {
	Operation string          `json:"operation"`
	Body      json.RawMessage `json:"body"`
	Key       string          `json:"key"`      // orders of one story with the same are one business action
	Customer  int             `json:"customer"` // counted from 1; as a rule each order has its own
	Count     int             `json:"count"`    // so many orders like this, with a customer each
	Before    string          `json:"before"`   // a change of the account before the order is given
	Want      []string        `json:"want"`     // outcomes that are right
}

var outcomes = []string{"success", "failed", "pending"}

// pages are the documents that an installation serves, by their file in the repository.
var pages = map[string]string{"docs/integrating.md": "/docs/guide", "docs/what-happens-when.md": "/docs/what-happens-when"}

// Page returns the path under which every installation serves the section to read; "" if it
// does not.
func (s Story) Page() string {
	file, section, _ := strings.Cut(s.Guide, "#")
	if pages[file] == "" {
		return ""
	}
	return pages[file] + "#" + section
}

// Stories returns every story, by name.
func Stories() ([]Story, error) {
	files, err := fs.Glob(storyFiles, "stories/*.json")
	if err != nil {
		return nil, err
	}
	var all []Story
	for _, file := range files {
		text, err := storyFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := parseStory(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.Name = strings.TrimSuffix(path.Base(file), ".json")
		all = append(all, s)
	}
	return all, nil
}

func parseStory(text []byte) (Story, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var s Story
	if err := decoder.Decode(&s); err != nil {
		return s, err
	}
	if s.About == "" || s.Costs == "" || s.Page() == "" || len(s.Orders) == 0 {
		return s, fmt.Errorf("about, costs, orders and a guide that Coax serves are required")
	}
	if s.Wallet == "" {
		s.Wallet = "10000.00"
	}
	if s.Limit == 0 {
		s.Limit = defaultFor
	}
	for _, one := range slices.Concat(s.Line, s.Polls) {
		if one.Do != redirect && one.Do != maintenance && !slices.Contains(line.Actions, one.Do) {
			return s, fmt.Errorf("a line cannot %q", one.Do)
		}
	}
	for i := range s.Orders {
		o := &s.Orders[i]
		if o.Customer == 0 {
			o.Customer = i + 1
		}
		if o.Key == "" {
			o.Key = fmt.Sprintf("order-%d", i+1)
		}
		if len(o.Want) == 0 {
			o.Want = []string{"success"}
		}
		for _, want := range o.Want {
			if !slices.Contains(outcomes, want) {
				return s, fmt.Errorf("%q is no outcome", want)
			}
		}
	}
	for _, outcome := range s.Provider {
		if !slices.Contains(simulator.Outcomes, outcome) {
			return s, fmt.Errorf("the provider has no outcome %q", outcome)
		}
	}
	return s, nil
}
