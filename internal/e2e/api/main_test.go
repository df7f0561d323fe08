package api

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestMain(m *testing.M) { e2e.MainRequiringAllCodes(m) }
