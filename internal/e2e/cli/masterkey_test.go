package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
)

// ringKey is a line of masterkey list.
type ringKey struct {
	ID      uint32 `json:"key_id"`
	Primary bool   `json:"primary"`
	InRing  bool   `json:"in_ring"`
	Sealed  int64  `json:"sealed"`
}

func listRing(t *testing.T, h *e2e.Install) (keys []ringKey) {
	t.Helper()
	if err := json.Unmarshal([]byte(h.JSON("masterkey", "list")), &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// A command that is killed at any step leaves a ring and a store that fit each other, and the
// same command again completes it.
func TestMasterKey_KilledCommandsAreCompleted(t *testing.T) {
	for _, row := range []struct {
		command, point string
		// before and after are how many keys the ring has after the kill and at the end.
		before, after int
	}{
		{"add", "K.write", 1, 2},
		{"rotate", "K.rotate", 2, 2},
		{"rotate", "K.rotated", 2, 2},
		{"rotate", "K.resealed", 2, 2},
		{"retire", "K.retired", 2, 1},
		{"retire", "K.write", 2, 1},
	} {
		t.Run(row.command+" "+row.point, func(t *testing.T) {
			t.Parallel()
			h := e2e.NewInstall(t)
			h.JSON("lco", "create", "--name", "Asha Cable")
			issueKeys(t, h, 120)
			old := listRing(t, h)[0].ID
			words := []string{"masterkey", row.command}
			if row.command != "add" {
				h.JSON("masterkey", "add")
			}
			if row.command == "retire" {
				h.JSON("masterkey", "rotate")
				words = append(words, "--key", fmt.Sprint(old))
			}
			args := append([]string{"admin", "--config", h.Config, "--json"}, words...)
			killed := e2e.LaunchProgram(t, e2e.FailpointBinary(t), []string{"COAX_FAILPOINT=" + row.point + "=kill"}, args...)
			if code := killed.Wait(); code != -1 {
				t.Fatalf("it ended with %d; want it killed\n%s%s", code, killed.Out, killed.Err)
			}
			inRing := func() (n int) {
				for _, key := range listRing(t, h) {
					if key.InRing {
						n++
					}
				}
				return n
			}
			if n := inRing(); n != row.before {
				t.Errorf("killed, the ring has %d keys; want %d", n, row.before)
			}
			h.JSON("key", "issue", "--lco", "1")
			e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config))

			h.JSON(words...)
			keys := listRing(t, h)
			if n := inRing(); n != row.after || len(keys) != row.after {
				t.Errorf("completed, the ring has %d keys: %+v; want %d", n, keys, row.after)
			}
			at := slices.IndexFunc(keys, func(k ringKey) bool { return k.Primary })
			var others int64
			for i, key := range keys {
				if i != at {
					others += key.Sealed
				}
			}
			if row.command != "add" && (keys[at].ID == old || others != 0) {
				t.Errorf("the keys are %+v; want everything sealed with the new one", keys)
			}
			e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config))
			if left, err := filepath.Glob(filepath.Join(h.Folder, ".master.key-*")); err != nil || len(left) > 1 { // of the killed command
				t.Errorf("drafts of the ring are left: %v, %v", left, err)
			}
		})
	}
}

// A command cannot change a key in its environment, and says what to do; what changes no key works.
func TestMasterKey_FromEnvironmentIsChangedByHand(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	h.JSON("lco", "create", "--name", "Asha Cable")
	run := func(words ...string) e2e.Result {
		ring := e2e.ReadFile(t, filepath.Join(h.Folder, "master.key"))
		return e2e.RunWithEnv(t, []string{"COAX_MASTER_KEY=" + ring}, append([]string{"admin", "--config", h.Config, "masterkey"}, words...)...)
	}
	for _, words := range [][]string{{"add"}, {"retire", "--key", "7"}} {
		e2e.CheckRefused(t, run(words...), "the master key is in COAX_MASTER_KEY, which this command cannot change", "--set secrets.master_key_file=FILE")
	}
	h.JSON("masterkey", "add")
	e2e.RequireOK(t, run("rotate"))
	if keys := listRing(t, h); len(keys) != 2 || !keys[1].Primary {
		t.Errorf("the keys are %+v; want the second one to seal", keys)
	}
}

// issueKeys issues API keys: more than are sealed again in one commit.
func issueKeys(t *testing.T, h *e2e.Install, n int) {
	t.Helper()
	config, err := server.LoadConfig(server.Sources{File: h.Config, Environ: e2e.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := server.OpenVault(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := server.OpenStore(t.Context(), config, server.StoreOptions{Tool: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := server.Clock(0)
	if _, _, err := server.UnlockStore(t.Context(), store, vault, now()); err != nil {
		t.Fatal(err)
	}
	service := admin.NewService(store, vault, "test", now)
	for range n {
		if _, err := service.IssueKey(t.Context(), 1, access.AllPermissions); err != nil {
			t.Fatal(err)
		}
	}
}
