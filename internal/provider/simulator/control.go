package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// controlScript sets the outcomes of the next orders for a mobile.
func (s *Simulator) controlScript(w http.ResponseWriter, r *http.Request) {
	var script struct {
		Mobile   string    `json:"mobile"`
		Outcomes []Outcome `json:"outcomes"`
	}
	if !readControl(w, r, &script) {
		return
	}
	if !isMobile(script.Mobile) {
		refuse(w, http.StatusBadRequest, "mobile must have ten digits")
		return
	}
	if script.Outcomes == nil {
		refuse(w, http.StatusBadRequest, "outcomes must be a list; an empty one ends the script")
		return
	}
	for _, outcome := range script.Outcomes {
		if !slices.Contains(Outcomes, outcome) {
			refuse(w, http.StatusBadRequest, "there is no outcome %q; there are %s", outcome, names())
			return
		}
	}
	s.settings.setScript(script.Mobile, script.Outcomes)
	respond(w, script)
}

func names() string {
	var all []string
	for _, outcome := range Outcomes {
		all = append(all, string(outcome))
	}
	return strings.Join(all, ", ")
}

// controlStatus switches the provider, its catalogue or its reversals, and returns the states;
// that of the reversals only if they are missing.
func (s *Simulator) controlStatus(w http.ResponseWriter, r *http.Request) {
	var change struct {
		Mode      *Mode   `json:"mode"`
		Catalogue *string `json:"catalogue"`
		Reversals *string `json:"reversals"`
	}
	if !readControl(w, r, &change) {
		return
	}
	switch {
	case change.Mode == nil && change.Catalogue == nil && change.Reversals == nil:
		refuse(w, http.StatusBadRequest, "mode, catalogue or reversals is needed")
		return
	case change.Reversals != nil && *change.Reversals != "up" && *change.Reversals != "missing":
		refuse(w, http.StatusBadRequest, "reversals is up or missing; not %q", *change.Reversals)
		return
	case change.Mode != nil && *change.Mode != ModeUp && *change.Mode != ModeDown && *change.Mode != ModeSlow:
		refuse(w, http.StatusBadRequest, "mode is up, down or slow; not %q", *change.Mode)
		return
	case change.Catalogue != nil && *change.Catalogue != "up" && *change.Catalogue != "down":
		refuse(w, http.StatusBadRequest, "catalogue is up or down; not %q", *change.Catalogue)
		return
	}
	mode, catalogueDown := s.settings.change(change.Mode, change.Catalogue, change.Reversals)
	states := map[string]string{"mode": string(mode), "catalogue": "up"}
	if catalogueDown {
		states["catalogue"] = "down"
	}
	if s.settings.cannotReverse() {
		states["reversals"] = "missing"
	}
	respond(w, states)
}

// controlComponents withdraws a component from sale, or restores it.
func (s *Simulator) controlComponents(w http.ResponseWriter, r *http.Request) {
	var change struct {
		Code     string `json:"code"`
		Sellable *bool  `json:"sellable"`
	}
	if !readControl(w, r, &change) {
		return
	}
	if change.Sellable == nil {
		refuse(w, http.StatusBadRequest, "sellable must be true or false")
		return
	}
	if !s.settings.sell(change.Code, *change.Sellable) {
		refuse(w, http.StatusNotFound, "there is no component %q", change.Code)
		return
	}
	respond(w, change)
}

// controlCalls lists the received calls and their results.
func (s *Simulator) controlCalls(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	mobile := ""
	for name, values := range query {
		if name != "mobile" || len(values) != 1 || values[0] == "" {
			refuse(w, http.StatusBadRequest, "the query is mobile=NUMBER, or nothing for every call")
			return
		}
		mobile = values[0]
	}
	respond(w, s.book.listCalls(mobile))
}

// readControl reads one JSON object. It rejects unknown fields, so that a misspelt
// command does not seem to succeed.
func readControl(w http.ResponseWriter, r *http.Request, into any) bool {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body cannot be read, or is larger than %d bytes", maxBody)
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not the JSON object that %s wants: %v", r.URL.Path, err)
		return false
	}
	if _, err := decoder.Token(); err != io.EOF {
		refuse(w, http.StatusBadRequest, "something follows the JSON object")
		return false
	}
	return true
}

// change sets what is not nil, and returns the mode and whether the catalogue is
// down.
func (s *settings) change(mode *Mode, catalogue, reversals *string) (Mode, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode != nil {
		s.mode = *mode
	}
	if catalogue != nil {
		s.catalogueDown = *catalogue == "down"
	}
	if reversals != nil {
		s.reversalsMissing = *reversals == "missing"
	}
	return s.mode, s.catalogueDown
}

func (s *settings) catalogueIsDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalogueDown
}

// sell sets whether a component is for sale; false if it does not exist.
func (s *settings) sell(code string, sellable bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, component := range Components() {
		if component.Code == code {
			s.withdrawn[code] = !sellable
			return true
		}
	}
	return false
}
