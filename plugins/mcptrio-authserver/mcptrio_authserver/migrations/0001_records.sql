-- compatible-from: 1
-- The records of the authorization server. Keys and groups are UTF-8: clients may send any text, and a column of type
-- text stores no U+0000.

CREATE TABLE records (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    key bytea NOT NULL,
    "group" bytea NOT NULL,
    value bytea NOT NULL,
    until double precision NOT NULL,
    UNIQUE (kind, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX records_by_group ON records (kind, "group", number);
CREATE INDEX records_by_end ON records (until);
