-- What pages look subscribers up by, as on SQLite. Nothing of it decides anything: a
-- request goes by the tables that were there before.

-- +goose Up
CREATE TABLE subscriber_terms (
    operator_id   BIGINT NOT NULL,
    kind          TEXT COLLATE "C" NOT NULL CHECK (kind IN ('name', 'word')),
    term          TEXT COLLATE "C" NOT NULL,
    subscriber_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (operator_id, kind, term, subscriber_id)
);
CREATE INDEX subscriber_terms_of_subscriber ON subscriber_terms (subscriber_id, kind, term);

-- The terms of one subscriber. The collation makes lower() do what SQLite's does,
-- whatever the server's own language is.
-- +goose StatementBegin
CREATE FUNCTION terms_of(id TEXT, mobile TEXT, name TEXT) RETURNS TABLE (kind TEXT, term TEXT) LANGUAGE sql IMMUTABLE AS $$
    SELECT 'name', lower(name COLLATE "C")
     UNION SELECT 'word', mobile
     UNION SELECT 'word', lower(id COLLATE "C")
     UNION SELECT 'word', word FROM unnest(string_to_array(translate(lower(name COLLATE "C"), '.,-/()', '      '), ' ')) AS word WHERE word <> ''
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION subscribers_become_findable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, t.kind, t.term, NEW.id FROM terms_of(NEW.id, NEW.mobile, NEW.name) AS t;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION subscribers_are_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM subscriber_terms WHERE subscriber_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER subscribers_become_findable AFTER INSERT ON subscribers FOR EACH ROW EXECUTE FUNCTION subscribers_become_findable();
CREATE TRIGGER subscribers_are_forgotten AFTER DELETE ON subscribers FOR EACH ROW EXECUTE FUNCTION subscribers_are_forgotten();

INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id)
SELECT s.operator_id, t.kind, t.term, s.id FROM subscribers s, terms_of(s.id, s.mobile, s.name) AS t;

-- In the order in which they expire. A renewal pays for it with an entry in each of
-- the three indexes that subscribers have; what else pages look for is not on them.
CREATE INDEX subscribers_by_expiry ON subscribers (operator_id, expires_at, id);

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (7, 1);
