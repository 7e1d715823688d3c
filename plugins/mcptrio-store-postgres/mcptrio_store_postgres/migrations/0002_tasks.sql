-- compatible-from: 1
-- The table of tasks. Replicas of the version before ignore it.

-- The key is the hash of the id. Times are seconds since 1970. The token names the last creation or claim.
CREATE TABLE tasks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    id text NOT NULL,
    owner text NOT NULL,
    tool text NOT NULL,
    state text NOT NULL,
    created float8 NOT NULL,
    expires float8 NOT NULL,
    fence bigint NOT NULL,
    generation bigint NOT NULL,
    holder text,
    token text NOT NULL,
    data bytea NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tasks_queued ON tasks (tool, number) WHERE state = 'queued';
CREATE INDEX tasks_running ON tasks (tool) WHERE state = 'running';
CREATE INDEX tasks_active ON tasks (owner) WHERE state <> 'ended';
CREATE INDEX tasks_owner ON tasks (owner, number);
CREATE INDEX tasks_expires ON tasks (expires);
