-- Contact data of subscribers, and what pages look them up by, as on SQLite. Nothing of it
-- decides anything.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (27, 1);

ALTER TABLE subscribers ADD COLUMN area TEXT NOT NULL DEFAULT '';
ALTER TABLE subscribers ADD COLUMN box_number TEXT NOT NULL DEFAULT '';
ALTER TABLE subscribers ADD COLUMN notes TEXT NOT NULL DEFAULT '';

-- Who changed a field of the contact data, one row for each field.
CREATE TABLE contact_changes (
    subscriber_id TEXT COLLATE "C" NOT NULL REFERENCES subscribers (id),
    seq           BIGINT NOT NULL,
    field         TEXT NOT NULL,
    old_value     TEXT NOT NULL,
    new_value     TEXT NOT NULL,
    actor         TEXT NOT NULL,
    at            BIGINT NOT NULL,
    PRIMARY KEY (subscriber_id, seq)
);

-- Whether the provider has been told of the latest change; version is the seq of that change.
CREATE TABLE contact_states (
    subscriber_id TEXT COLLATE "C" PRIMARY KEY REFERENCES subscribers (id),
    version       BIGINT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('untold', 'told', 'unsupported', 'refused')),
    message       TEXT NOT NULL,
    at            BIGINT NOT NULL
);

-- The terms of one subscriber: as before each word of the name, the number, the id and the whole
-- name, and now the words of area, address and box number, and number and box number backwards,
-- after a <, to be found by their last digits.
-- +goose StatementBegin
CREATE FUNCTION terms_of(s subscribers) RETURNS TABLE (kind TEXT, term TEXT) LANGUAGE sql STABLE AS $$
    SELECT 'name', lower(s.name COLLATE "C")
     UNION SELECT 'word', s.mobile
     UNION SELECT 'word', lower(s.id COLLATE "C")
     UNION SELECT 'word', '<' || reverse(s.mobile) WHERE length(s.mobile) = 10
     UNION SELECT 'word', lower(s.box_number COLLATE "C") WHERE s.box_number <> ''
     UNION SELECT 'word', '<' || reverse(lower(s.box_number COLLATE "C")) WHERE s.box_number <> ''
     UNION SELECT 'word', word
      FROM unnest(string_to_array(translate(lower((s.name || ' ' || s.area || ' ' || s.address) COLLATE "C"), E'.,-/()\t\n\r', '         '), ' ')) AS word
     WHERE word <> ''
$$;
-- +goose StatementEnd

-- Subscribers by what lists are filtered and sorted by, in the order of their names: those of an
-- area, and those that have or had a plan. The present plan changes with time, when a cycle that
-- was bought in advance begins, and a table does not: so readers check it.
CREATE TABLE subscriber_lists (
    operator_id   BIGINT NOT NULL,
    list          TEXT COLLATE "C" NOT NULL CHECK (list IN ('area', 'plan')),
    value         TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    subscriber_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (operator_id, list, value, name, subscriber_id)
);
CREATE INDEX subscriber_lists_of_subscriber ON subscriber_lists (subscriber_id);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION subscribers_become_findable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM subscriber_terms WHERE subscriber_id = NEW.id;
        DELETE FROM subscriber_lists WHERE subscriber_id = NEW.id AND list = 'area';
        UPDATE subscriber_lists SET name = lower(NEW.name COLLATE "C") WHERE subscriber_id = NEW.id;
    END IF;
    INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, t.kind, t.term, NEW.id FROM terms_of(NEW) AS t;
    IF NEW.area <> '' THEN
        INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
        VALUES (NEW.operator_id, 'area', lower(NEW.area COLLATE "C"), lower(NEW.name COLLATE "C"), NEW.id);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER subscriber_index_update AFTER UPDATE OF name, area, address, box_number ON subscribers
    FOR EACH ROW EXECUTE FUNCTION subscribers_become_findable();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION subscribers_are_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM subscriber_terms WHERE subscriber_id = OLD.id;
    DELETE FROM subscriber_lists WHERE subscriber_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Once for all cycles of a statement. Most are of the plan of the cycle before, and change nothing.
-- +goose StatementBegin
CREATE FUNCTION cycle_plan_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
    SELECT s.operator_id, 'plan', n.plan_id, lower(s.name COLLATE "C"), s.id
      FROM added n
      LEFT JOIN cycles c ON c.subscriber_id = n.subscriber_id AND c.seq = n.seq - 1
      JOIN subscribers s ON s.id = n.subscriber_id
     WHERE c.plan_id IS DISTINCT FROM n.plan_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER cycle_plan_insert AFTER INSERT ON cycles REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION cycle_plan_insert();

-- Rows of earlier subscribers are added after the migration, so that no table is locked meanwhile:
-- fillSubscriberIndex. Here is what is not filled in yet, and the last id that is.
CREATE TABLE unfilled (
    name     TEXT COLLATE "C" PRIMARY KEY,
    after_id TEXT COLLATE "C" NOT NULL
);
INSERT INTO unfilled VALUES ('subscriber index', '');
