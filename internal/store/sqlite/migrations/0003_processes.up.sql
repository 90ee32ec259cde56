-- Processes.

CREATE TABLE node (
  id         INTEGER PRIMARY KEY,
  role       TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  host       TEXT    NOT NULL,
  pid        INTEGER NOT NULL,
  version    TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  skew       INTEGER NOT NULL
) STRICT;

-- Retention.

-- What was removed, as package audit has it.
CREATE TABLE anchor (
  kind          TEXT    NOT NULL,
  seq           INTEGER NOT NULL,
  day           INTEGER NOT NULL,
  count         INTEGER NOT NULL,
  entries       INTEGER NOT NULL,
  first_created INTEGER NOT NULL,
  last_created  INTEGER NOT NULL,
  first_ended   INTEGER NOT NULL,
  last_ended    INTEGER NOT NULL,
  last          INTEGER NOT NULL,
  digest        BLOB    NOT NULL,
  at            INTEGER NOT NULL,
  actor         TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  hash          BLOB    NOT NULL,
  PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;

-- Speed.
