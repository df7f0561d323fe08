package pages

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

func TestMain(m *testing.M) {
	look.UsePseudo()
	looktest.Host()
	e2e.Main(m, looktest.Close)
}
