"""The embedded log: topics, partitions, durable appends, and the law of rows.

`Topic` is what others hold; `Producer` appends; `RowReader` turns lines and files into rows; `Disk` is every file
operation. The layers below, from the bottom: `frame` (bytes), `segment` (files), `manifest` (which files count),
`partition` (the lock, append, repair, seal), `topic` and `producer`.
"""

from headrace.log.disk import Disk, RealDisk
from headrace.log.position import Position
from headrace.log.producer import Producer
from headrace.log.rows import RowReader
from headrace.log.topic import PartitionStats, Slices, Topic, TopicSpec, TopicStats

__all__ = [
    "Disk",
    "PartitionStats",
    "Position",
    "Producer",
    "RealDisk",
    "RowReader",
    "Slices",
    "Topic",
    "TopicSpec",
    "TopicStats",
]
