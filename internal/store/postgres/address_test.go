package postgres

import (
	"errors"
	"strings"
	"testing"
)

func TestRedact_RemovesPassword(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://coax@db/coax":                                       "postgres://coax@db/coax",
		"postgres://db/coax":                                            "postgres://db/coax",
		"postgres://db:5433/coax":                                       "postgres://db:5433/coax",
		"postgres://":                                                   "postgres://",
		"postgres://coax:hunter2@db/coax":                               "postgres://coax@db/coax",
		"postgresql://coax:hunter2@db/coax":                             "postgresql://coax@db/coax",
		"postgres://coax:hunter2@db1:5432,db2:5433/coax":                "postgres://coax@db1:5432,db2:5433/coax",
		"postgres://coax:hunter2@[::1]:5432/coax?sslmode=require":       "postgres://coax@[::1]:5432/coax?sslmode=require",
		"postgres://:hunter2@db/coax":                                   "postgres://@db/coax",
		"postgres://coax:@db/coax":                                      "postgres://coax@db/coax",
		"postgres://coax:hun%74er2@db/coax":                             "postgres://coax@db/coax",
		"postgres://coax:hunter2:hunter2@db/coax":                       "postgres://coax@db/coax",
		"postgres://coax:hun/hunter2@db/coax":                           "postgres://coax@db/coax",
		"postgres://coax:hun?hunter2@db/coax":                           "postgres://coax@db/coax",
		"postgres://coax:hun#hunter2@db/coax":                           "postgres://coax@db/coax",
		"postgres://coax:hun@hunter2@db/coax":                           "postgres://coax@db/coax",
		"postgres://coax:hun@hunter2/hunter2?hunter2@db/coax":           "postgres://coax@db/coax",
		"postgres://coax:hunter2":                                       "postgres://coax:hunter2", // a host and a port
		"postgres://db/coax?password=hunter2":                           "postgres://db/coax?",
		"postgres://db/coax?password=hunter2&sslmode=require":           "postgres://db/coax?sslmode=require",
		"postgres://db/coax?sslmode=require&password=hunter2":           "postgres://db/coax?sslmode=require",
		"postgres://db/coax?%70assword=hunter2&user=coax":               "postgres://db/coax?user=coax",
		"postgres://db/coax?Password=hunter2&user=coax":                 "postgres://db/coax?user=coax",
		"postgres://db/coax?sslpassword=hunter2&sslkey=key.pem":         "postgres://db/coax?sslkey=key.pem",
		"postgres://db/coax?%zzpassword=hunter2":                        "postgres://db/coax?",
		"postgres://coax:hunter2@db/coax?password=hunter2&user=someone": "postgres://coax@db/coax?user=someone",
		"host=db password=hunter2":                                      "postgres",
		"hunter2":                                                       "postgres",
	} {
		if got := Redact(address); got != want {
			t.Errorf("%s is shown as %s; want %s", address, got, want)
		}
	}
}

func TestCheckAddress_ExplainsErrors(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://coax:hunter2@db:port/coax":                          "invalid port",
		"postgres://coax:hunter2@db/coax?sslmode=maybe":                 "sslmode is invalid",
		"postgres://coax:hunter2@db/coax?pool_max_conns=many":           "pool_max_conns",
		"postgres://coax:hunter2@db/coax?pool_max_conns=0":              "pool_max_conns",
		"postgres://coax:hunter2@db/coax?connect_timeout=soon":          "connect_timeout",
		"postgres://coax:hunter2@db/coax?target_session_attrs=whatever": "target_session_attrs",
		"postgres://coax:hunter2@db/coax?%zz=1":                         "%zz",
		"postgres://coax:hunter2@[::1/coax":                             "IPv6",
		"postgres://coax:hunter2@d b/coax":                              "spaces",
		"postgres://coax:hun%zzhunter2@db/coax":                         "percent-encoded",
		"postgres://coax:hun/hunter2@db/coax":                           "%2F for /",
		"postgres://coax:hun@hunter2@db:port/coax":                      "%40 for @",
		"postgres://coax:hun@hunter2@db/coax":                           "%40 for @",
		"postgres://coax:hun@hunter2@db1,db2/coax":                      "host name contains an @",
		"postgres://coax:hun hunter2@db/coax":                           "spaces",
		"postgres://db:port/coax?password=hunter2":                      "invalid port",
	} {
		_, opening := Open(t.Context(), address, Options{})
		_, reading := OpenSQL(address)
		for _, err := range []error{CheckAddress(address), opening, reading} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), Redact(address)) {
				t.Errorf("%s: %v; want it refused with %q", address, err, want)
			} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: the message shows the password, or takes several lines: %v", address, err)
			}
		}
	}
}

func TestCheckAddress_EscapedPassword(t *testing.T) {
	config, err := readAddress("postgres://coax:%40%2F%3F%23%25@db1:5432,db2:5433/coax")
	if err != nil {
		t.Fatal(err)
	}
	if got := config.ConnConfig; got.Password != "@/?#%" || got.Host != "db1" || len(got.Fallbacks) == 0 || got.Database != "coax" {
		t.Errorf("read as %q at %s and %d more, database %s", got.Password, got.Host, len(got.Fallbacks), got.Database)
	}
}

func TestInOneLine(t *testing.T) {
	cause := errors.New("failed to connect:\n\tdb1: refused\n\tdb1: refused\n\tdb2: refused\n")
	err := inOneLine(cause)
	if err.Error() != "failed to connect: db1: refused; db2: refused" || !errors.Is(err, cause) {
		t.Errorf("it is %q", err)
	}
}
