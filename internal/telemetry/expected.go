package telemetry

// A counter that appears with its first event is no increase to rate() and to an alert. So
// series with known labels exist, at zero, from the start.

func (m *Metrics) startAtZero() {
	for _, outcome := range []string{"done", "refused", "in_review", "cancelled"} {
		m.bulkRows.WithLabelValues(outcome)
	}
	for _, table := range []string{"nonces", "login_sessions", "request_log", "provider_calls", "operation_events", "bulk_jobs"} {
		m.purged.WithLabelValues(table)
	}
	for _, event := range SecurityEvents {
		m.securityEvents.WithLabelValues(event, outcomeOf(event))
	}
}

// outcomeOf returns the outcome that a security event has.
func outcomeOf(event string) string {
	switch event {
	case "sign_in_failed", "step_up_failed", "password_change_failed", "second_factor_set_up_failed", "second_factor_change_failed",
		"passkey_counter_went_back", "approval_refused", "access_refused", "cross_site_refused", "api_throttled":
		return SecurityRefused
	}
	return SecurityDone
}

// ExpectResponses creates the counters of an endpoint's responses.
func (m *Metrics) ExpectResponses(endpoint string, codes ...string) {
	for _, code := range codes {
		m.requests.WithLabelValues(endpoint, code)
	}
}

// ExpectDurations creates the histogram of an endpoint's responses with a code.
func (m *Metrics) ExpectDurations(endpoint, code string) {
	m.requestSeconds.WithLabelValues(endpoint, code)
}

// ExpectConnections creates the counters of refused connections, by reason, and of dropped
// ones, by limit and state.
func (m *Metrics) ExpectConnections(reasons, limits, states []string) {
	for _, reason := range reasons {
		m.refused.WithLabelValues(reason)
	}
	for _, limit := range limits {
		for _, state := range states {
			m.dropped.WithLabelValues(limit, state)
		}
	}
}

// ExpectProviderCalls creates the series of calls to the provider, by kind and cause.
func (m *Metrics) ExpectProviderCalls(whats, causes []string) {
	for _, what := range whats {
		m.providerSeconds.WithLabelValues(what)
		for _, cause := range causes {
			m.providerCalls.WithLabelValues(what, cause)
		}
	}
}

// ExpectProviderOrders creates the counters of orders, by kind and outcome.
func (m *Metrics) ExpectProviderOrders(whats, outcomes []string) {
	for _, what := range whats {
		for _, outcome := range outcomes {
			m.providerOrders.WithLabelValues(what, outcome)
		}
	}
}
