package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// SecurityEvents are the names of all security events. A name that is not listed is
// counted as "other", so that the metric's label set stays bounded.
var SecurityEvents = []string{
	"signed_in", "sign_in_password_accepted", "sign_in_failed", "signed_out", "session_ended",
	"step_up_passed", "step_up_failed",
	"password_changed", "password_change_failed", "password_reset",
	"second_factor_set_up", "second_factor_set_up_failed", "second_factor_removed", "second_factor_reset", "recovery_code_used",
	"second_factor_change_failed", "passkey_added", "passkey_removed", "passkey_counter_went_back", "recovery_codes_replaced",
	"login_created", "login_role_changed", "login_disabled", "login_enabled", "login_changed",
	"key_issued", "key_rotated", "key_revoked", "key_permissions_changed",
	"whitelist_added", "whitelist_removed",
	"operator_created", "operator_suspended", "operator_reactivated", "operator_api_changed", "operator_changed",
	"operator_deleted", "operator_undeleted", "operator_second_factor_changed",
	"wallet_topped_up", "wallet_adjusted", "review_settled", "operation_adopted", "commission_closed",
	"payment_announced", "payment_withdrawn", "payment_rejected", "bank_statement_uploaded", "reversal_requested", "operation_reversed", "reversal_settled",
	"plan_changed", "plan_retired", "subscribers_imported", "subscriber_forgotten", "app_password_reset",
	"proposal_made", "proposal_approved", "proposal_declined", "proposal_withdrawn", "approval_refused",
	"maintenance_on", "maintenance_off", "store_restored",
	"master_key_added", "master_key_rotated", "master_key_retired",
	"staff_action",
	"access_refused", "cross_site_refused", "api_throttled",
}

// Outcomes of security events.
const (
	SecurityDone    = "done"
	SecurityRefused = "refused"
)

// SecurityEvent is a sign-in, a staff action or a refusal.
// It never has a password, a code, a token, a secret or a customer's data.
type SecurityEvent struct {
	// Event is one of SecurityEvents, Outcome one of the outcomes above.
	Event, Outcome string
	// Reason is why it was refused.
	Reason string
	// Visitor is who did it and from where. What the event knows better it sets itself.
	Visitor
	// Factor is how the person was authenticated: password, totp, recovery code.
	Factor string
	// Subject is what it was done to, such as login 7, and Action the name of the staff
	// action in the audit log.
	Subject, Action string
	// Path is the pattern of the page's address.
	Path string
	// Details are further fields of an event.
	Details []slog.Attr
}

// Visitor is who makes a request, and from where.
type Visitor struct {
	RequestID string
	Address   netip.Addr
	// Agent is what the browser calls itself, shortened.
	Agent string
	// SessionID is the session's public name.
	SessionID string
	// Actor is as in the audit log, such as web:asha; LoginID is 0 where nobody is
	// signed in, and OperatorID 0 for staff.
	Actor, Username, Realm, Role string
	LoginID, OperatorID          int64
}

type visitorKey struct{}

// WithVisitor is a context that knows who makes the request.
func WithVisitor(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// VisitorOf is who makes the request of a context; zero where that is not known.
func VisitorOf(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}

// Security writes security events: to a file of their own, or to the ordinary log,
// where stream=security marks them. A nil Security writes nothing.
type Security struct {
	log     *slog.Logger
	metrics *Metrics
	// open opens the file; nil where there is none.
	open func() (*os.File, error)

	mu   sync.Mutex
	file *os.File
	// torn: the file ends within a line.
	torn bool
}

// NewSecurity writes security events to the ordinary log, or, if open is not nil, to
// the file that it opens for reading and appending. Metrics may be nil.
func NewSecurity(log *slog.Logger, metrics *Metrics, open func() (*os.File, error)) (*Security, error) {
	s := &Security{log: log, metrics: metrics, open: open}
	if open == nil {
		return s, nil
	}
	return s, s.Reopen()
}

// Reopen opens the file again, as is needed after it was renamed; the old one stays in
// use if that fails. An event is written wholly to the one or to the other. Without a
// file it does nothing.
func (s *Security) Reopen() error {
	if s == nil || s.open == nil {
		return nil
	}
	file, err := s.open() // before the lock: it may take long
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	torn, err := endsWithinLine(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	old := s.file
	s.file, s.torn = file, torn
	if old != nil {
		return old.Close()
	}
	return nil
}

// endsWithinLine reports whether a file's last line is not whole: the disk was full, or
// the process that wrote it ended.
func endsWithinLine(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

// Close closes the file.
func (s *Security) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// Log writes an event and counts it. That it cannot be written to its file is logged and
// counted; the event goes to the ordinary log then.
func (s *Security) Log(e SecurityEvent) {
	if s == nil {
		return
	}
	if s.metrics != nil {
		s.metrics.SecurityEvent(e.Event, e.Outcome)
	}
	level := slog.LevelInfo
	if e.Outcome == SecurityRefused {
		level = slog.LevelWarn
	}
	if s.open != nil {
		err := s.write(level, e)
		if err == nil {
			return
		}
		if s.metrics != nil {
			s.metrics.SecurityNotWritten()
		}
		s.log.Error("write the security log", "error", err)
	}
	s.log.LogAttrs(context.Background(), level, "security", append([]slog.Attr{slog.String("stream", "security")}, e.attrs()...)...)
}

func (s *Security) write(level slog.Level, e SecurityEvent) error {
	var line bytes.Buffer
	record := slog.NewRecord(time.Now(), level, "security", 0)
	record.AddAttrs(e.attrs()...)
	if err := slog.NewJSONHandler(&line, &slog.HandlerOptions{ReplaceAttr: redact}).Handle(context.Background(), record); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return os.ErrClosed
	}
	text := line.Bytes()
	if s.torn {
		text = slices.Concat([]byte("\n"), text)
	}
	n, err := s.file.Write(text)
	if n > 0 {
		s.torn = err != nil
	}
	if err != nil {
		return fmt.Errorf("%w (the event follows)", err)
	}
	return nil
}

func (e SecurityEvent) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("event", e.Event), slog.String("outcome", e.Outcome)}
	for _, field := range []struct{ name, value string }{
		{"reason", e.Reason}, {"actor", e.Actor}, {"username", e.Username}, {"realm", e.Realm}, {"role", e.Role}, {"factor", e.Factor},
		{"subject", e.Subject}, {"action", e.Action}, {"path", e.Path}, {"session", e.SessionID}, {"request_id", e.RequestID}, {"agent", e.Agent},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if e.LoginID != 0 {
		attrs = append(attrs, slog.Int64("login", e.LoginID))
	}
	if e.OperatorID != 0 {
		attrs = append(attrs, slog.Int64("operator", e.OperatorID))
	}
	if e.Address.IsValid() {
		attrs = append(attrs, slog.String("ip", e.Address.Unmap().WithZone("").String()))
	}
	return append(attrs, e.Details...)
}
