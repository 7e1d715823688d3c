-- compatible-from: 1
-- The tables of sessions, streams, events, effects, replays, quotas and leases.

CREATE TABLE sessions (
    id text PRIMARY KEY,
    record bytea NOT NULL,
    generation bigint NOT NULL,
    used timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sessions_used ON sessions (used);

-- The inbox of a session is a stream without a writer. Appending changes no indexed column, so that the row's new
-- version stays on its page (HOT).
CREATE TABLE streams (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session text NOT NULL,
    name text NOT NULL,
    writer text,
    first bigint NOT NULL DEFAULT 0,
    next bigint NOT NULL,
    bytes bigint NOT NULL,
    is_complete boolean NOT NULL DEFAULT false,
    will bytea,
    token bigint NOT NULL,
    touched timestamptz NOT NULL DEFAULT now(),
    ends timestamptz,
    UNIQUE (session, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX streams_open ON streams (writer) WHERE NOT is_complete;
CREATE INDEX streams_ends ON streams (ends) WHERE ends IS NOT NULL;

CREATE TABLE events (
    stream bigint NOT NULL,
    position bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, position)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE leases (
    replica text PRIMARY KEY,
    expires timestamptz NOT NULL,
    began timestamptz NOT NULL DEFAULT now(),
    host text NOT NULL DEFAULT '',
    process integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE effects (
    id text PRIMARY KEY,
    holder text NOT NULL,
    token bigint NOT NULL,
    result bytea,
    expires timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX effects_expires ON effects (expires) WHERE expires IS NOT NULL;
CREATE INDEX effects_running ON effects (holder) WHERE result IS NULL;

CREATE TABLE replays (
    name text PRIMARY KEY,
    expires timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX replays_expires ON replays (expires);

CREATE TABLE quotas (
    name text PRIMARY KEY,
    arrival timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
