-- Plan and end of an operation stood in this index for the sake of one question,
-- whether the same was renewed a moment ago, which cycles answer as well. Without them
-- an operation's entry is not written again when it ends, and is half as long.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (12, 2);

DROP INDEX operations_of_subscriber;
CREATE INDEX operations_of_subscriber ON operations (subscriber_id);
