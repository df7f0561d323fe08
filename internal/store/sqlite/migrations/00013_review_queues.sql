-- Due follow-ups are claimed operator by operator, so that one operator's unknown
-- outcomes do not starve another's: each queue is found by operator and due time.
-- An add-on counts its own follow-ups and claims, as an operation does.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (13, 2);

CREATE INDEX operations_reviews_by_operator ON operations (operator_id, next_check_at) WHERE status = 'needs_review';
CREATE INDEX operations_late_checks_by_operator ON operations (operator_id, next_check_at) WHERE status = 'failed' AND next_check_at IS NOT NULL;
CREATE INDEX operations_addons_by_operator ON operations (operator_id, addon_next_at) WHERE addon_next_at IS NOT NULL;

ALTER TABLE operations ADD COLUMN addon_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operations ADD COLUMN addon_checks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operations ADD COLUMN addon_needs_person INTEGER NOT NULL DEFAULT 0;
