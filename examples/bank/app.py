"""A bank: money moves between accounts, and none comes or goes.

A transfer is one row that touches two accounts. In every epoch both have seen it or neither has, so the sum of all balances
is always 0: what the accounts have gained, others have lost.
"""

import headrace as hr

app = hr.App("bank")

transfers = app.topic(
    "transfers",
    schema="source STRING NOT NULL, target STRING NOT NULL, amount DECIMAL(12,2) NOT NULL",
    partitions=4,
)

app.sql(
    "accounts",
    key=["account"],
    query="""
        SELECT account, sum(amount) AS balance, count(*) AS movements
        FROM (
            SELECT source AS account, -amount AS amount FROM transfers
            UNION ALL
            SELECT target AS account, amount FROM transfers
        )
        GROUP BY account
    """,
)


@app.table(key=["account"])
def overdrawn(accounts):
    """A table over a table, in the same epoch: accounts that have given more than they got."""
    return accounts.where("balance < 0").select("account", "balance")


if __name__ == "__main__":
    app.run()
