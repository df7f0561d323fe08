-- What pages look subscribers up by. Nothing of it decides anything: a request goes
-- by the tables that were there before.

-- +goose Up

-- What a subscriber can be found by: each word of the name, the number and the id,
-- and the whole name to sort by. A term is in lower case as far as ASCII goes; of the
-- scripts of India none has another. They stand in a table of their own, because a
-- renewal changes the subscriber's row, and none of this.
CREATE TABLE subscriber_terms (
    operator_id   INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind = 'name' OR kind = 'word'),
    term          TEXT    NOT NULL,
    subscriber_id TEXT    NOT NULL,
    PRIMARY KEY (operator_id, kind, term, subscriber_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriber_terms_of_subscriber ON subscriber_terms (subscriber_id, kind, term);

-- Triggers write them, so that whoever adds a subscriber, a release that does not
-- know of them included, makes it findable.
-- +goose StatementBegin
CREATE TRIGGER subscribers_become_findable AFTER INSERT ON subscribers BEGIN
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    VALUES (NEW.operator_id, 'name', lower(NEW.name), NEW.id),
           (NEW.operator_id, 'word', NEW.mobile, NEW.id),
           (NEW.operator_id, 'word', lower(NEW.id), NEW.id);
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', w.value, NEW.id
      FROM json_each('[' || replace(json_quote(replace(replace(replace(replace(replace(replace(lower(NEW.name),
           '.', ' '), ',', ' '), '-', ' '), '/', ' '), '(', ' '), ')', ' ')), ' ', '","') || ']') w
     WHERE w.value <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER subscribers_are_forgotten AFTER DELETE ON subscribers BEGIN
    DELETE FROM subscriber_terms WHERE subscriber_id = OLD.id;
END;
-- +goose StatementEnd

INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
SELECT operator_id, 'name', lower(name), id FROM subscribers
 UNION ALL SELECT operator_id, 'word', mobile, id FROM subscribers
 UNION ALL SELECT operator_id, 'word', lower(id), id FROM subscribers
 UNION ALL SELECT s.operator_id, 'word', w.value, s.id
  FROM subscribers s, json_each('[' || replace(json_quote(replace(replace(replace(replace(replace(replace(lower(s.name),
       '.', ' '), ',', ' '), '-', ' '), '/', ' '), '(', ' '), ')', ' ')), ' ', '","') || ']') w
 WHERE w.value <> '';

-- In the order in which they expire, with the id to go on from.
DROP INDEX subscribers_of_operator;
CREATE INDEX subscribers_by_expiry ON subscribers (operator_id, expires_at, id);

INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (9, 2);
