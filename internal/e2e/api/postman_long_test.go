//go:build long

package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// Every request of the Postman collection is signed by its script and answered with OK.
func TestPostman_CollectionRuns(t *testing.T) {
	newman := os.Getenv("COAX_TEST_NEWMAN")
	if newman == "" {
		t.Skip("COAX_TEST_NEWMAN does not name Newman; make openapi-lint installs it")
	}
	w := e2e.NewLiveEnv(t)
	ca := filepath.Join(w.Folder, "ca.pem")
	command := exec.CommandContext(t.Context(), newman, "run", "../../../sdk/postman/coax.postman_collection.json", "--ssl-extra-ca-certs", ca,
		"--env-var", "base_url="+w.Demo.BaseURL, "--env-var", "api_key="+w.Demo.APIKey, "--env-var", "api_secret="+w.Demo.APISecret)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("newman: %v\n%s", err, output)
	}
}
