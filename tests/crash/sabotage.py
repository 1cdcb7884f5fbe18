"""An app whose Python function ends processes when a row tells it to, as often as the row says and no more often.

Who strikes and how often is in the files of a folder, so that a strike is not repeated when the epoch is computed again.
"""

import os
import signal
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql import types as T

import headrace as hr

FLAGS = str(Path(__file__).parent / "flags")

app = hr.App("sabotage")
words = app.topic("words", schema="word STRING NOT NULL, victim STRING, times INT", partitions=2)


def parent(pid: int) -> int:
    """The process that started this one."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


@F.udf(T.StringType())
def upper(word: str, victim: str, times: int) -> str:
    """The word in capitals; on the way, perhaps, the end of this worker, or of the JVM whose worker it is."""
    Path(FLAGS).mkdir(exist_ok=True)
    for n in range(times or 0):
        flag = Path(FLAGS, f"{word}-{n}")
        if not flag.exists():
            flag.touch()
            daemon = parent(os.getpid())
            os.kill(os.getpid() if victim == "worker" else parent(daemon), signal.SIGKILL)
            signal.pause()
    return word.upper()


@app.table(key=["capitals"])
def counts(words):
    """How often each word came."""
    return words.groupBy(upper("word", "victim", "times").alias("capitals")).agg(F.count("*").alias("n"))


app.sql("letters", key=["letter"], query="SELECT left(capitals, 1) AS letter, sum(n) AS n FROM counts GROUP BY left(capitals, 1)")
