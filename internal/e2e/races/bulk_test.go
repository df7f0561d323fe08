package races

import (
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/operation"
)

// A bulk renewal is run by the node beside its requests, and resumes after a restart.
func TestBulkRenewal_ResumesAfterRestart(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "10000")
	var ids []string
	for i := range 20 {
		mobile := fmt.Sprintf("98%08d", i)
		ids = append(ids, w.Activate(me, mobile, "BASIC-1"))
		w.ScriptProvider(mobile, "slow")
	}
	before := w.WalletPaise(me)
	service := func() *bulk.Service { return bulk.NewService(w.Node.Store, w.Node.Operations, w.Now) }
	job, err := service().Prepare(t.Context(), bulk.Order{
		OperatorID: me.OperatorID, Actor: "web:asha", Title: "list", Kind: operation.Renew, Selections: bulk.SelectSubscribers(ids),
	})
	if err == nil {
		_, err = service().Start(t.Context(), me.OperatorID, job.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	progress := func() bulk.Job {
		job, err := service().Job(t.Context(), me.OperatorID, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	w.WaitUntil("rows are running", func() bool { return progress().Progress.Running > 0 })
	w.Restart()
	w.WaitUntil("the job is finished", func() bool { return progress().State == bulk.Finished })
	if got := progress().Progress; got.Done != len(ids) {
		t.Errorf("%+v; want all done", got)
	}
	if after := w.WalletPaise(me); before[0]-after[0] != int64(len(ids))*199_00 || after[1] != 0 {
		t.Errorf("the wallet and its holds went from %v to %v; want %d renewals paid", before, after, len(ids))
	}
	w.CheckAudit()
}
