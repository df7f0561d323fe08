package audit

import "fmt"

// What a unique index guarantees is checked all the same: the index may have been dropped
// or be damaged.

func (a *auditor) readIdempotencyKeys() {
	type claim struct {
		operator int64
		key      string
	}
	var before claim
	claims := open(a, "operations", `SELECT operator_id, idempotency_key FROM operations ORDER BY operator_id, idempotency_key`,
		func(row scanner, c *claim) int64 {
			row(&c.operator, &c.key)
			return c.operator
		})
	walk(func(id int64) {
		claims.each(id, func(c *claim) {
			if *c == before {
				a.found("M5", fmt.Sprintf("lco %d", c.operator), "idempotency key %q stands for two operations; expected one", c.key)
			}
			before = *c
		})
	}, claims)
}

func (a *auditor) readMobiles() {
	type owner struct{ mobile, id string }
	var before owner
	owners := open(a, "subscribers", `SELECT mobile, id FROM subscribers ORDER BY mobile `+bytewise+`, id`,
		func(row scanner, o *owner) string {
			row(&o.mobile, &o.id)
			return o.mobile
		})
	walk(func(mobile string) {
		owners.each(mobile, func(o *owner) {
			if o.mobile == before.mobile && before.id != "" {
				a.found("S3", "subscriber "+o.id, "its mobile, ending in %s, is subscriber %s's too; expected a number to belong to one",
					ending(o.mobile), before.id)
			}
			before = *o
		})
	}, owners)
}
