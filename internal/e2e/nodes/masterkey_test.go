//go:build long

package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
)

// Three nodes, each with a ring of its own, sell while the master key is replaced: nothing is
// rotated before each has the new key, a replay is recognised by every node, and the client keys
// that orders carry stay the same.
func TestMasterKey_RotationUnderLoad(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	rings := make([]string, 3)
	for i := range rings {
		rings[i] = filepath.Join(t.TempDir(), "master.key")
		copyRing(t, filepath.Join(c.Folder, "master.key"), rings[i])
		c.launch(e2e.Binary(t), []string{"COAX_SECRETS_MASTER_KEY_FILE=" + rings[i]})
	}
	for _, node := range c.nodes {
		node.await()
	}
	c.setUp()
	config, err := server.LoadConfig(server.Sources{File: c.config})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := server.OpenVault(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	clientKeys := operation.ClientKeys(vault.DeriveInOrder(operation.ClientKeyPurpose))
	began := time.Now()
	// The node that set the store up never serves: it would be waited for.
	if _, err := c.open().Exec(`DELETE FROM nodes WHERE name LIKE $1`, fmt.Sprintf("%%-%d-%%", os.Getpid())); err != nil {
		t.Fatal(err)
	}
	me := c.NewFundedOperator("me", "9000000")
	c.LiftRateLimit(me)
	load := c.traffic(me, 0, 1, 2)
	load.awaitOrders(5)
	before := c.operateAt(0, me, "activate", "before-rotation", e2e.Activation("9711111111"))

	command := func(words ...string) e2e.Result {
		return e2e.Run(t, append([]string{"admin", "--config", c.config, "--json", "masterkey"}, words...)...)
	}
	list := func() (keys []struct {
		ID      uint32   `json:"key_id"`
		Primary bool     `json:"primary"`
		Nodes   []string `json:"nodes"`
		Sealed  int64    `json:"sealed"`
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(e2e.RequireOK(t, command("list")).Out), &keys); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	old := list()[0]
	if len(old.Nodes) != 3 || !old.Primary {
		t.Fatalf("the keys are %+v; want one that three nodes hold", list())
	}
	e2e.RequireOK(t, command("add"))
	give := func(nodes ...int) {
		t.Helper()
		for _, i := range nodes {
			copyRing(t, filepath.Join(c.Folder, "master.key"), rings[i])
			c.nodes[i].Hangup("the master key was read again")
		}
	}
	give(0, 1)
	c.waitSlowly("two nodes hold the key", func() bool { return len(list()[1].Nodes) == 2 })
	lacking := slices.DeleteFunc(old.Nodes, func(name string) bool { return slices.Contains(list()[1].Nodes, name) })
	if e2e.CheckRefused(t, command("rotate"), "these nodes do not hold it: "+lacking[0]); list()[1].Primary {
		t.Error("a refused rotation has rotated")
	}
	give(2)
	c.waitSlowly("three nodes hold the key", func() bool { return len(list()[1].Nodes) == 3 })

	// Two at once: one rotates, the other goes on or is refused.
	results := make(chan e2e.Result, 2)
	for range 2 {
		go func() { results <- command("rotate") }()
	}
	rotated := 0
	for range 2 {
		if got := <-results; strings.Contains(got.Out, `"rotated":true`) && strings.Contains(got.Out, `"waiting_nodes":[]`) {
			rotated++
		}
	}
	if keys := list(); rotated != 1 || !keys[1].Primary || keys[0].Sealed != 0 {
		t.Fatalf("%d rotations; the keys are %+v", rotated, keys)
	}
	load.awaitOrders(10)
	after := c.operateAt(1, me, "activate", "after-rotation", e2e.Activation("9711111112"))
	retired := command("retire", "--key", fmt.Sprint(old.ID))
	e2e.RequireOK(t, retired)
	give(0, 1, 2)
	load.awaitOrders(10)
	last := c.operateAt(2, me, "activate", "after-retirement", e2e.Activation("9711111113"))
	load.stop()

	ordered := c.clientKeys(config, began)
	for i := range c.nodes {
		for key, first := range map[string]e2e.Answer{"before-rotation": before, "after-rotation": after, "after-retirement": last} {
			mobile := map[string]string{"before-rotation": "9711111111", "after-rotation": "9711111112", "after-retirement": "9711111113"}[key]
			if first.Code != fault.OK {
				t.Fatalf("%s: %s", key, first.Raw)
			}
			if again := c.operateAt(i, me, "activate", key, e2e.Activation(mobile)); again.Text("transaction_id") != first.Text("transaction_id") {
				t.Errorf("node %d answers the repeated request %s: %s; want %s", i, key, again.Raw, first.Raw)
			}
			if other := c.operateAt(i, me, "activate", key, e2e.Activation("9722222222")); other.Code != fault.IdempotencyKeyReused {
				t.Errorf("node %d answers another request under %s: %s", i, key, other.Raw)
			}
			if got, want := ordered[first.Text("transaction_id")], clientKeys.Of(me.OperatorID, key); got != want {
				t.Errorf("%s was ordered with the client key %q; want %q", key, got, want)
			}
		}
	}
	if got := c.rows(`SELECT count(DISTINCT fingerprint_key_id) FROM operations`); got[0] != "2" {
		t.Errorf("fingerprints were made with %s keys; want two", got[0])
	}
	c.checkClean()
}

// The last release cannot use a store whose master key was rotated: nothing is rotated while one of
// its nodes serves, and none starts afterwards.
func TestMasterKey_OlderReleaseIsRefused(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	last, err := lastRelease()
	if err != nil {
		t.Fatal(err)
	}
	c := newEmptyCluster(t)
	c.withoutNewSections()
	c.launch(e2e.Binary(t), nil).await()
	c.launch(last, nil).await()
	command := func(words ...string) e2e.Result {
		return e2e.Run(t, append([]string{"admin", "--config", c.config, "masterkey"}, words...)...)
	}
	e2e.RequireOK(t, command("add"))
	c.nodes[0].Hangup("the master key was read again")
	e2e.CheckRefused(t, command("rotate"), "coax of an older release uses the store", "upgrade it first")
	me := c.setUpBy(e2e.Binary(t))
	for i := range c.nodes {
		if got := c.operateAt(i, me, "activate", "before-rotation", e2e.Activation("9711111111")); got.Code != fault.OK {
			t.Errorf("node %d: %s", i, got.Raw)
		}
	}
	if status := c.nodes[1].Terminate(); status != e2e.ExitDone {
		t.Errorf("the older node ended with %d", status)
	}
	c.waitSlowly("the rotation is done", func() bool { return command("rotate").Code == e2e.ExitDone })
	late := e2e.LaunchProgram(t, last, nil, append([]string{"serve", "--config", c.config}, e2e.FreePorts...)...)
	if status := late.Wait(); status != e2e.ExitRefused {
		t.Errorf("the older release ended with %d", status)
	}
	e2e.CheckMentions(t, "the refusal", late.Err.String(), "newer release", "generation 3")
	if got := c.operateAt(0, me, "activate", "before-rotation", e2e.Activation("9711111111")); got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeated request: %s", got.Raw)
	}
	c.checkClean()
}

// clientKeys reads the client keys of the provider's orders, by reference.
func (c *cluster) clientKeys(config server.Config, since time.Time) map[string]string {
	c.TB.Helper()
	provider, err := server.OpenProvider(config, nil)
	if err != nil {
		c.TB.Fatal(err)
	}
	defer provider.Close()
	keys := map[string]string{}
	for cursor := ""; ; {
		page, err := provider.ListOrders(c.TB.Context(), since, cursor)
		if err != nil {
			c.TB.Fatal(err)
		}
		for _, order := range page.Orders {
			keys[order.Reference] = order.ClientKey
		}
		if cursor = page.Next; cursor == "" {
			return keys
		}
	}
}

// awaitOrders waits until so many more orders have been placed.
func (l *traffic) awaitOrders(n int64) {
	l.c.TB.Helper()
	from := l.orders.Load()
	l.c.waitSlowly("orders are placed", func() bool { return l.orders.Load() >= from+n })
}

func copyRing(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to+".new", []byte(e2e.ReadFile(t, from)), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}
