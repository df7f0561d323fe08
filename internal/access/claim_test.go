package access

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestReadClaim_EachHeaderOnce(t *testing.T) {
	headers := []struct {
		name string
		of   func(*Request) *[]string
	}{
		{"X-API-Key", func(r *Request) *[]string { return &r.Key }},
		{"X-Timestamp", func(r *Request) *[]string { return &r.Timestamp }},
		{"X-Nonce", func(r *Request) *[]string { return &r.Nonce }},
		{"X-Signature", func(r *Request) *[]string { return &r.Signature }},
	}
	tests := []struct {
		name  string
		spoil func(values []string) []string
		want  string
	}{
		{"missing", func([]string) []string { return nil }, " is missing"},
		{"empty", func([]string) []string { return []string{""} }, " is empty"},
		{"twice the same", func(v []string) []string { return []string{v[0], v[0]} }, " is there 2 times"},
		{"once more, empty", func(v []string) []string { return []string{v[0], ""} }, " is there 2 times"},
		{"three times", func(v []string) []string { return []string{"", "x", v[0]} }, " is there 3 times"},
	}
	for _, header := range headers {
		for _, tt := range tests {
			t.Run(header.name+" "+tt.name, func(t *testing.T) {
				s := newFixture(t)
				d := s.draft()
				d.sent = append(d.sent, func(r *Request) {
					values := header.of(r)
					*values = tt.spoil(*values)
				})
				_, err := s.send(d)
				refusal := expect(t, err, fault.MissingAuthHeaders)
				if !strings.Contains(refusal.Message, header.name+tt.want) {
					t.Errorf("message = %q; want one that says %q", refusal.Message, header.name+tt.want)
				}
				if header.name == "X-API-Key" && s.store.reads != 0 || len(s.store.admissions) != 0 {
					t.Error("the store was asked about more than whose key it is")
				}
			})
		}
	}

	_, err := newFixture(t).authorizer.Authorize(t.Context(), Request{Now: now})
	refusal := expect(t, err, fault.MissingAuthHeaders)
	for _, header := range headers {
		if !strings.Contains(refusal.Message, header.name+" is missing") {
			t.Errorf("message = %q; want every missing header named", refusal.Message)
		}
	}
}

func TestAuthorize_Timestamps(t *testing.T) {
	unix := now.Unix()
	digits := fmt.Sprint(unix)
	fullWidth := strings.Map(func(r rune) rune { return r - '0' + '\uff10' }, digits)
	tests := []struct {
		name, timestamp string
		good            bool
	}{
		{"now", digits, true},
		{"300 s behind", fmt.Sprint(unix - 300), true},
		{"301 s behind", fmt.Sprint(unix - 301), false},
		{"300 s ahead", fmt.Sprint(unix + 300), true},
		{"301 s ahead", fmt.Sprint(unix + 301), false},
		{"leading zeros are digits", "000" + digits, true},
		{"thirty leading zeros", strings.Repeat("0", 30) + digits, true},
		{"a sign", "+" + digits, false},
		{"a minus sign", "-" + digits, false},
		{"an exponent", "1e9", false},
		{"an exponent that means now", fmt.Sprintf("%de0", unix), false},
		{"a blank before", " 1", false},
		{"a blank before now", " " + digits, false},
		{"a blank behind", digits + " ", false},
		{"a fraction", digits + ".0", false},
		{"underscores", digits[:4] + "_" + digits[4:], false},
		{"hex", fmt.Sprintf("0x%x", unix), false},
		{"full-width digits", fullWidth, false},
		{"milliseconds", fmt.Sprint(now.UnixMilli()), false},
		{"zero", "0", false},
		{"minus zero", "-0", false},
		{"the largest int64", "9223372036854775807", false},
		{"one more", "9223372036854775808", false},
		{"twenty digits", "99999999999999999999", false},
		{"now, modulo 2^64", new(big.Int).Add(big.NewInt(unix), new(big.Int).Lsh(big.NewInt(1), 64)).String(), false},
		{"a thousand digits", strings.Repeat("9", 1000), false},
		{"a NUL", digits + "\x00", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			d := s.draft()
			d.timestamp = tt.timestamp
			_, err := s.send(d)
			if tt.good {
				expect(t, err, fault.OK)
				return
			}
			refusal := expect(t, err, fault.TimestampExpired)
			if got, ok := refusal.Data["server_time"].(int64); !ok || got != unix {
				t.Errorf("server_time = %v (%T); want %d as int64", refusal.Data["server_time"], refusal.Data["server_time"], unix)
			}
		})
	}
}

func TestTimestamp_MillisecondsAreNamedInTheMessage(t *testing.T) {
	for timestamp, want := range map[string]bool{
		fmt.Sprint(now.UnixMilli()):                   true,
		fmt.Sprint(now.AddDate(-1, 0, 0).UnixMilli()): true,
		fmt.Sprint(now.Unix() - 301):                  false,
		fmt.Sprint(now.UnixMicro()):                   false,
		fmt.Sprint(now.UnixNano()):                    false,
		fmt.Sprintf("%d.0", now.UnixMilli()):          false,
	} {
		err := checkTimestamp(timestamp, now)
		refusal := expect(t, err, fault.TimestampExpired)
		if got := strings.Contains(refusal.Message, "milliseconds"); got != want {
			t.Errorf("%s: %q; want it to speak of milliseconds: %v", timestamp, refusal.Message, want)
		}
	}
	if err := checkTimestamp("000"+fmt.Sprint(now.Unix()), now); err != nil {
		t.Errorf("thirteen digits that are now in seconds: %v; want them accepted", err)
	}
}

func TestCheckTimestamp_WholeSeconds(t *testing.T) {
	end := time.Unix(1_800_000_300, 999_999_999)
	if err := checkTimestamp("1800000000", end); err != nil {
		t.Errorf("300.999… s behind: %v; want it accepted", err)
	}
	if err := checkTimestamp("1800000000", end.Add(1)); fault.CodeOf(err) != fault.TimestampExpired {
		t.Errorf("301 s behind: %v; want it refused", err)
	}
}

func TestAuthorize_NonceForm(t *testing.T) {
	tests := []struct {
		name, nonce string
		want        fault.Code
	}{
		{"16 characters", "0123456789abcdef", fault.OK},
		{"15 characters", "0123456789abcde", fault.InvalidNonce},
		{"64 characters", strings.Repeat("Az0_", 15) + "----", fault.OK},
		{"65 characters", strings.Repeat("a", 65), fault.InvalidNonce},
		{"every kind of character", "AZaz09_-AZaz09_-", fault.OK},
		{"a UUID", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", fault.OK},
		{"a period", "0123456789abcde.", fault.InvalidNonce},
		{"base64", "0123456789abcd+/", fault.InvalidNonce},
		{"padding", "0123456789abcde=", fault.InvalidNonce},
		{"a blank", "0123456789abcde ", fault.InvalidNonce},
		{"letters beyond ASCII", "0123456789abcdé", fault.InvalidNonce},
		{"a NUL", "0123456789abcde\x00", fault.InvalidNonce},
		{"a line feed is not even signed", "0123456789abcde\n", fault.InvalidSignature},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			d := s.draft()
			d.nonce = tt.nonce
			_, err := s.send(d)
			expect(t, err, tt.want)
			if s.nonceUsed(tt.nonce) != (tt.want == fault.OK) {
				t.Errorf("nonce %q burned: %t", tt.nonce, s.nonceUsed(tt.nonce))
			}
		})
	}
}
