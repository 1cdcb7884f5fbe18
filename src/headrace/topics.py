"""From the definition of a topic to the topic on disk."""

from __future__ import annotations

from headrace.clock import Clock, SystemClock
from headrace.definitions import TopicDef
from headrace.errors import DefinitionError
from headrace.log.topic import Topic
from headrace.place import Place


def open_topic(place: Place, definition: TopicDef, *, clock: Clock | None = None) -> Topic:
    """The topic that an app declares: made when it is missing, given the columns that came since, or refused."""
    folder, clock = place.topic(definition.name), clock or SystemClock()
    if not (folder / "topic.json").exists():
        topic = Topic.create(
            folder,
            name=definition.name,
            schema=definition.schema,
            partitions=definition.partitions,
            partition_by=definition.partition_by,
            event_time=definition.event_time,
            clock=clock,
        )
    else:
        topic = Topic.open(folder, clock=clock)
    _compare(topic, definition)
    if topic.spec.schema != definition.schema:
        topic.evolve(definition.schema)
    return topic


def _compare(topic: Topic, definition: TopicDef) -> None:
    """What decides a row's partition is fixed for ever; the rest may not differ silently."""
    for option, on_disk, wanted in (
        ("partitions", topic.spec.partitions, definition.partitions),
        ("partition_by", tuple(topic.spec.partition_by), tuple(definition.partition_by)),
        ("event_time", topic.spec.event_time, definition.event_time),
    ):
        if on_disk != wanted:
            raise DefinitionError(
                f'topic "{definition.name}" exists with {option}={_shown(on_disk)}',
                details=[f"the app asks for {_shown(wanted)}, and {option} of a topic cannot change"],
                origin=definition.origin,
                hint=f"{option}={_shown(on_disk)}, or a topic of another name",
            )


def _shown(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
