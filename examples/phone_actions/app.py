"""Phones report what is done with them. How often is each action taken, hour by hour, and which phones are open now?

The first query is pasted as somebody wrote it for a batch job: a column without a name, double quotes around text.
"""

import headrace as hr

app = hr.App("phone_actions")

events = app.topic(
    "events",
    schema="phone_id STRING NOT NULL, time TIMESTAMP NOT NULL, action STRING NOT NULL",
    event_time="time",
    lateness="2 hours",
    partitions=4,
    partition_by="phone_id",
)

app.sql(
    "actions_per_hour",
    'SELECT action, WINDOW(time, "1 hour"), COUNT(*) FROM events GROUP BY action, WINDOW(time, "1 hour")',
)

# A phone's own events are in the phone's order, so every prefix of them has at least as many opens as closes.
app.sql(
    "opens_and_closes",
    """
    SELECT phone_id, count_if(action = 'open') AS opens, count_if(action = 'close') AS closes
    FROM events WHERE action IN ('open', 'close') GROUP BY phone_id
    """,
)

if __name__ == "__main__":
    app.run()
