-- Contact data of subscribers, and what pages look them up by. Nothing of it decides anything.

-- +goose Up
INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (32, 2);

ALTER TABLE subscribers ADD COLUMN area TEXT NOT NULL DEFAULT '';
ALTER TABLE subscribers ADD COLUMN box_number TEXT NOT NULL DEFAULT '';
ALTER TABLE subscribers ADD COLUMN notes TEXT NOT NULL DEFAULT '';

-- Who changed a field of the contact data, one row for each field.
CREATE TABLE contact_changes (
    subscriber_id TEXT    NOT NULL REFERENCES subscribers (id),
    seq           INTEGER NOT NULL,
    field         TEXT    NOT NULL,
    old_value     TEXT    NOT NULL,
    new_value     TEXT    NOT NULL,
    actor         TEXT    NOT NULL,
    at            INTEGER NOT NULL,
    PRIMARY KEY (subscriber_id, seq)
) STRICT, WITHOUT ROWID;

-- Whether the provider has been told of the latest change; version is the seq of that change.
CREATE TABLE contact_states (
    subscriber_id TEXT    PRIMARY KEY REFERENCES subscribers (id),
    version       INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'untold' OR state = 'told' OR state = 'unsupported' OR state = 'refused'),
    message       TEXT    NOT NULL,
    at            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Subscribers by what lists are filtered and sorted by, in the order of their names: those of an
-- area, and those that have or had a plan. The present plan changes with time, when a cycle that
-- was bought in advance begins, and a table does not: so readers check it.
CREATE TABLE subscriber_lists (
    operator_id   INTEGER NOT NULL,
    list          TEXT    NOT NULL CHECK (list = 'area' OR list = 'plan'),
    value         TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    subscriber_id TEXT    NOT NULL,
    PRIMARY KEY (operator_id, list, value, name, subscriber_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriber_lists_of_subscriber ON subscriber_lists (subscriber_id);

-- What a subscriber can be found by: as before each word of the name, the number, the id and the
-- whole name, and now the words of area and address, the box number, and both numbers backwards,
-- after a <, for their last digits.
DROP TRIGGER subscribers_become_findable;
-- +goose StatementBegin
CREATE TRIGGER subscribers_become_findable AFTER INSERT ON subscribers BEGIN
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    VALUES (NEW.operator_id, 'name', lower(NEW.name), NEW.id),
           (NEW.operator_id, 'word', NEW.mobile, NEW.id),
           (NEW.operator_id, 'word', lower(NEW.id), NEW.id),
           (NEW.operator_id, 'word', '<' || substr(NEW.mobile, 10, 1) || substr(NEW.mobile, 9, 1) || substr(NEW.mobile, 8, 1) || substr(NEW.mobile, 7, 1) || substr(NEW.mobile, 6, 1)
               || substr(NEW.mobile, 5, 1) || substr(NEW.mobile, 4, 1) || substr(NEW.mobile, 3, 1) || substr(NEW.mobile, 2, 1) || substr(NEW.mobile, 1, 1), NEW.id);
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', lower(NEW.box_number), NEW.id WHERE NEW.box_number <> '';
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', lower('<' || substr(NEW.box_number, 30, 1) || substr(NEW.box_number, 29, 1) || substr(NEW.box_number, 28, 1) || substr(NEW.box_number, 27, 1) || substr(NEW.box_number, 26, 1)
               || substr(NEW.box_number, 25, 1) || substr(NEW.box_number, 24, 1) || substr(NEW.box_number, 23, 1) || substr(NEW.box_number, 22, 1) || substr(NEW.box_number, 21, 1)
               || substr(NEW.box_number, 20, 1) || substr(NEW.box_number, 19, 1) || substr(NEW.box_number, 18, 1) || substr(NEW.box_number, 17, 1) || substr(NEW.box_number, 16, 1)
               || substr(NEW.box_number, 15, 1) || substr(NEW.box_number, 14, 1) || substr(NEW.box_number, 13, 1) || substr(NEW.box_number, 12, 1) || substr(NEW.box_number, 11, 1)
               || substr(NEW.box_number, 10, 1) || substr(NEW.box_number, 9, 1) || substr(NEW.box_number, 8, 1) || substr(NEW.box_number, 7, 1) || substr(NEW.box_number, 6, 1)
               || substr(NEW.box_number, 5, 1) || substr(NEW.box_number, 4, 1) || substr(NEW.box_number, 3, 1) || substr(NEW.box_number, 2, 1) || substr(NEW.box_number, 1, 1)), NEW.id
     WHERE NEW.box_number <> '';
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', w.value, NEW.id
      FROM json_each('[' || replace(json_quote(replace(replace(replace(replace(replace(replace(replace(replace(replace(
           lower(NEW.name || ' ' || NEW.area || ' ' || NEW.address),
           '.', ' '), ',', ' '), '-', ' '), '/', ' '), '(', ' '), ')', ' '), char(9), ' '), char(10), ' '), char(13), ' ')), ' ', '","') || ']') w
     WHERE w.value <> '';
    INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
    SELECT NEW.operator_id, 'area', lower(NEW.area), lower(NEW.name), NEW.id WHERE NEW.area <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER subscriber_index_update AFTER UPDATE OF name, area, address, box_number ON subscribers BEGIN
    DELETE FROM subscriber_terms WHERE subscriber_id = NEW.id;
    DELETE FROM subscriber_lists WHERE subscriber_id = NEW.id;
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    VALUES (NEW.operator_id, 'name', lower(NEW.name), NEW.id),
           (NEW.operator_id, 'word', NEW.mobile, NEW.id),
           (NEW.operator_id, 'word', lower(NEW.id), NEW.id),
           (NEW.operator_id, 'word', '<' || substr(NEW.mobile, 10, 1) || substr(NEW.mobile, 9, 1) || substr(NEW.mobile, 8, 1) || substr(NEW.mobile, 7, 1) || substr(NEW.mobile, 6, 1)
               || substr(NEW.mobile, 5, 1) || substr(NEW.mobile, 4, 1) || substr(NEW.mobile, 3, 1) || substr(NEW.mobile, 2, 1) || substr(NEW.mobile, 1, 1), NEW.id);
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', lower(NEW.box_number), NEW.id WHERE NEW.box_number <> '';
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', lower('<' || substr(NEW.box_number, 30, 1) || substr(NEW.box_number, 29, 1) || substr(NEW.box_number, 28, 1) || substr(NEW.box_number, 27, 1) || substr(NEW.box_number, 26, 1)
               || substr(NEW.box_number, 25, 1) || substr(NEW.box_number, 24, 1) || substr(NEW.box_number, 23, 1) || substr(NEW.box_number, 22, 1) || substr(NEW.box_number, 21, 1)
               || substr(NEW.box_number, 20, 1) || substr(NEW.box_number, 19, 1) || substr(NEW.box_number, 18, 1) || substr(NEW.box_number, 17, 1) || substr(NEW.box_number, 16, 1)
               || substr(NEW.box_number, 15, 1) || substr(NEW.box_number, 14, 1) || substr(NEW.box_number, 13, 1) || substr(NEW.box_number, 12, 1) || substr(NEW.box_number, 11, 1)
               || substr(NEW.box_number, 10, 1) || substr(NEW.box_number, 9, 1) || substr(NEW.box_number, 8, 1) || substr(NEW.box_number, 7, 1) || substr(NEW.box_number, 6, 1)
               || substr(NEW.box_number, 5, 1) || substr(NEW.box_number, 4, 1) || substr(NEW.box_number, 3, 1) || substr(NEW.box_number, 2, 1) || substr(NEW.box_number, 1, 1)), NEW.id
     WHERE NEW.box_number <> '';
    INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
    SELECT NEW.operator_id, 'word', w.value, NEW.id
      FROM json_each('[' || replace(json_quote(replace(replace(replace(replace(replace(replace(replace(replace(replace(
           lower(NEW.name || ' ' || NEW.area || ' ' || NEW.address),
           '.', ' '), ',', ' '), '-', ' '), '/', ' '), '(', ' '), ')', ' '), char(9), ' '), char(10), ' '), char(13), ' ')), ' ', '","') || ']') w
     WHERE w.value <> '';
    INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
    SELECT NEW.operator_id, 'area', lower(NEW.area), lower(NEW.name), NEW.id WHERE NEW.area <> '';
    INSERT OR IGNORE INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
    SELECT NEW.operator_id, 'plan', c.plan_id, lower(NEW.name), NEW.id FROM cycles c WHERE c.subscriber_id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER subscriber_lists_delete AFTER DELETE ON subscribers BEGIN
    DELETE FROM subscriber_lists WHERE subscriber_id = OLD.id;
END;
-- +goose StatementEnd
-- Most cycles are of the plan of the cycle before, and change nothing here.
-- +goose StatementBegin
CREATE TRIGGER cycle_plan_insert AFTER INSERT ON cycles
WHEN (SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = NEW.subscriber_id AND c.seq = NEW.seq - 1) IS NOT NEW.plan_id BEGIN
    INSERT OR IGNORE INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
    SELECT s.operator_id, 'plan', NEW.plan_id, lower(s.name), s.id FROM subscribers s WHERE s.id = NEW.subscriber_id;
END;
-- +goose StatementEnd

INSERT OR IGNORE INTO subscriber_terms (operator_id, kind, term, subscriber_id)
SELECT operator_id, 'word', '<' || substr(mobile, 10, 1) || substr(mobile, 9, 1) || substr(mobile, 8, 1) || substr(mobile, 7, 1) || substr(mobile, 6, 1)
       || substr(mobile, 5, 1) || substr(mobile, 4, 1) || substr(mobile, 3, 1) || substr(mobile, 2, 1) || substr(mobile, 1, 1), id
  FROM subscribers WHERE length(mobile) = 10
 UNION ALL SELECT s.operator_id, 'word', w.value, s.id
  FROM subscribers s, json_each('[' || replace(json_quote(replace(replace(replace(replace(replace(replace(replace(replace(replace(
           lower(s.name || ' ' || s.area || ' ' || s.address),
           '.', ' '), ',', ' '), '-', ' '), '/', ' '), '(', ' '), ')', ' '), char(9), ' '), char(10), ' '), char(13), ' ')), ' ', '","') || ']') w
 WHERE w.value <> '' AND s.address <> '';

INSERT OR IGNORE INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
SELECT s.operator_id, 'plan', c.plan_id, lower(s.name), s.id FROM cycles c JOIN subscribers s ON s.id = c.subscriber_id;
