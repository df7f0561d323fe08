package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/subscription"
)

func integrityKeys() *integrity.Keys {
	return integrity.NewKeys(1, func(purpose string) map[uint32][]byte { return map[uint32][]byte{1: []byte(purpose)} })
}

func TestStaffActions_TwoNodesKeepOneChain(t *testing.T) {
	address := migrated(t)
	nodes := []*DB{open(t, address), open(t, address)}
	var starting sync.WaitGroup
	for _, node := range nodes {
		starting.Go(func() {
			if _, _, err := node.UseIntegrityKeys(t.Context(), integrityKeys(), noon); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	operator, err := nodes[0].CreateOperator(t.Context(), act("lco create"), subscription.Operator{
		Name: "one", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, CreatedAt: noon,
	})
	if err != nil {
		t.Fatal(err)
	}
	var clerks sync.WaitGroup
	for i := range 16 {
		clerks.Go(func() {
			key, _ := access.NewKey()
			_, err := nodes[i%2].IssueKey(t.Context(), act("key issue"), access.Credential{
				OperatorID: operator.ID, KeyHash: access.HashKey(key), Hint: access.Hint(key), SealedSecret: []byte("sealed"), CreatedAt: noon,
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	clerks.Wait()
	conn := raw(t, address)
	rows, err := conn.Query(t.Context(), `SELECT id, operator_id, actor, action, subject, before_state, after_state, reason, at, origin, mac FROM staff_acts ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	previous := integrityKeys().SignStart(integrity.Start{}).Code
	number := int64(0)
	for rows.Next() {
		var a integrity.Action
		var mac []byte
		if err := rows.Scan(&a.ID, &a.OperatorID, &a.Actor, &a.Action, &a.Subject, &a.Before, &a.After, &a.Reason, &a.At, &a.Origin, &mac); err != nil {
			t.Fatal(err)
		}
		previous = integrityKeys().SignAction(previous, a).Code
		if number++; a.ID != number || string(mac) != string(previous) {
			t.Errorf("action %d has the MAC %x; want number %d and %x", a.ID, mac, number, previous)
		}
	}
	if err := rows.Err(); err != nil || number != 17 {
		t.Errorf("%d actions, %v; want 17", number, err)
	}
}

// A node of the release before knows no MACs, and goes on until it is replaced.
func TestStaffActions_OlderReleaseIsRefusedOnceSigned(t *testing.T) {
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	insert := func(id int) error {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(`
			WITH chained AS (UPDATE staff_chain SET last_id = %[1]d, head = '')
			INSERT INTO staff_acts (id, actor, action, subject, before_state, after_state, reason, at, hash)
			VALUES (%[1]d, 'cli:asha', 'x', 'x', '', '', '', 0, '')`, id))
		return err
	}
	if err := insert(101); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.UseIntegrityKeys(t.Context(), integrityKeys(), noon); err != nil {
		t.Fatal(err)
	}
	if err := insert(102); err == nil || !strings.Contains(err.Error(), "need_the_newer_release") {
		t.Errorf("a staff action without a MAC: %v; want it refused", err)
	}
}
