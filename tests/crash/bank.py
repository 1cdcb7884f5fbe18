"""A bank whose books must always agree: what is in the accounts is what was paid in.

Two sources, a table over both, a table over one, and a table over a table: three ways to be wrong by one epoch.
"""

import headrace as hr

app = hr.App("bank")

app.topic("deposits", schema="account STRING NOT NULL, amount BIGINT NOT NULL", partitions=2)
app.topic("transfers", schema="source STRING NOT NULL, target STRING NOT NULL, amount BIGINT NOT NULL", partitions=2)

app.sql(
    "accounts",
    key=["account"],
    query="""
        SELECT account, sum(amount) AS balance
        FROM (
            SELECT account, amount FROM deposits
            UNION ALL SELECT source AS account, -amount AS amount FROM transfers
            UNION ALL SELECT target AS account, amount FROM transfers
        )
        GROUP BY account
    """,
)
app.sql("paid_in", key=["bank"], query="SELECT 'all' AS bank, sum(amount) AS amount FROM deposits GROUP BY 'all'")
app.sql("total", key=["bank"], query="SELECT 'all' AS bank, sum(balance) AS balance FROM accounts GROUP BY 'all'")
