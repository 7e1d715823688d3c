"""The database of ``database.py``: 80 tables of a software company, with the rows that its questions are about."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["SCHEMA", "statements"]

SCHEMA = """
CREATE TABLE plans(
    id int PRIMARY KEY, name text NOT NULL UNIQUE, monthly_price numeric(10, 2) NOT NULL CHECK (monthly_price >= 0)
);
CREATE TABLE customers(
    id bigint PRIMARY KEY, name text NOT NULL, email text UNIQUE, country char(2), created_at timestamptz NOT NULL
);
CREATE TABLE subscriptions(
    id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers(id) ON DELETE CASCADE,
    plan_id int NOT NULL REFERENCES plans(id), started_at date NOT NULL, ended_at date, seats int NOT NULL DEFAULT 1
);
CREATE INDEX subscriptions_customer ON subscriptions(customer_id);
CREATE TABLE invoices(
    id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers(id), number text NOT NULL UNIQUE,
    issued_on date NOT NULL, total numeric(12, 2) NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'paid', 'void'))
);
CREATE INDEX invoices_issued ON invoices(issued_on);
CREATE INDEX invoices_issued_status ON invoices(issued_on, status);
CREATE TABLE invoice_lines(
    invoice_id bigint REFERENCES invoices(id) ON DELETE CASCADE, position int, plan_id int REFERENCES plans(id),
    quantity int NOT NULL, amount numeric(12, 2) NOT NULL, PRIMARY KEY (invoice_id, position)
);
CREATE TABLE payments(
    id bigint PRIMARY KEY, invoice_id bigint NOT NULL REFERENCES invoices(id), paid_at timestamptz NOT NULL,
    amount numeric(12, 2) NOT NULL, method text NOT NULL
);
CREATE TABLE refunds(
    id bigint PRIMARY KEY, payment_id bigint NOT NULL REFERENCES payments(id), amount numeric(12, 2) NOT NULL,
    reason text
);
CREATE TABLE tickets(
    id bigint PRIMARY KEY, customer_id bigint REFERENCES customers(id), opened_at timestamptz NOT NULL,
    subject text NOT NULL, body text NOT NULL
);
COMMENT ON TABLE plans IS 'What customers can buy';
COMMENT ON TABLE customers IS 'Companies that pay or have paid';
COMMENT ON TABLE subscriptions IS 'Plans of a customer over time';
COMMENT ON TABLE invoices IS 'Invoices, without their lines';
COMMENT ON COLUMN invoices.total IS 'gross, in euros';
COMMENT ON TABLE payments IS 'Money received for an invoice';
COMMENT ON TABLE tickets IS 'Questions to support, with full mails';

INSERT INTO plans VALUES (1, 'basic', 9), (2, 'team', 49), (3, 'company', 199);
INSERT INTO customers SELECT i, 'Customer ' || i, 'office@customer' || i || '.example',
    (ARRAY['DE', 'FR', 'US', 'JP'])[1 + i % 4],
    timestamptz '2024-01-01 UTC' + i * interval '7 hours' FROM generate_series(1, 2000) AS i;
INSERT INTO subscriptions SELECT i, i, 1 + i % 3, date '2024-01-01' + i % 300, NULL, 1 + i % 20
    FROM generate_series(1, 2000) AS i;
INSERT INTO invoices SELECT i, 1 + i % 2000, 'R-' || lpad(i::text, 6, '0'), date '2025-01-01' + i % 365, 10 + i % 500,
    CASE WHEN i % 17 = 0 THEN 'open' ELSE 'paid' END FROM generate_series(1, 40000) AS i;
INSERT INTO invoice_lines SELECT i, 1, 1 + i % 3, 1, 10 + i % 500 FROM generate_series(1, 40000) AS i;
INSERT INTO payments SELECT i, i, timestamptz '2025-01-02 UTC' + i % 365 * interval '1 day', 10 + i % 500, 'card'
    FROM generate_series(1, 40000) AS i WHERE i % 17 > 0;
INSERT INTO refunds SELECT i, i, 5, 'cancelled' FROM generate_series(1, 40000, 100) AS i WHERE i % 17 > 0;
INSERT INTO tickets SELECT i, 1 + i % 2000, timestamptz '2026-01-01 UTC' + i * interval '1 hour', 'Question ' || i,
    repeat('Dear support, the export of our invoices stopped in the middle of the month. ', 200 + i % 50)
    FROM generate_series(1, 300) AS i;
"""

_AREAS = ("audit", "catalog", "content", "crm", "hr", "mail", "metrics", "shipping")
_THINGS = ("accounts", "batches", "channels", "documents", "entries", "items", "jobs", "labels", "rules")
_COLUMNS = (
    "name text NOT NULL",
    "state text",
    "owner_id bigint",
    "created_at timestamptz",
    "updated_at timestamptz",
    "amount numeric(12, 2)",
    "note text",
    "data jsonb",
    "priority int",
    "is_active boolean DEFAULT true",
)


def statements() -> Iterator[str]:
    """Yield the statements that make the database."""
    yield SCHEMA
    for area_at, area in enumerate(_AREAS):
        for thing_at, thing in enumerate(_THINGS):
            count = 4 + (area_at * 5 + thing_at * 3) % 7
            columns = ", ".join(("id bigint PRIMARY KEY", *_COLUMNS[:count]))
            parent = f", parent_id bigint REFERENCES {area}_{_THINGS[thing_at - 1]}(id)" if thing_at else ""
            yield f"CREATE TABLE {area}_{thing}({columns}{parent})"
            yield f"COMMENT ON TABLE {area}_{thing} IS '{thing.capitalize()} of the department {area}'"
            yield f"INSERT INTO {area}_{thing}(id, name) SELECT i, 'x' FROM generate_series(1, 50) AS i"
    yield "ANALYZE"
