"""Bugs in receiving, acknowledging, and the way of a message through the engine."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Code, Drop, Swap, Unwrap, Value

BUGS: Final = (
    Bug(
        "a statement that the database refuses closes the connection without an answer",
        "engine.pipeline.intake:Intake._not_stored",
        Drop("JournalRefusedError"),
        ("pipeline/test_refusals.py",),
    ),
    Bug(
        "a delivery that cannot be recorded ends the engine for all channels, again and again",
        "engine.pipeline.delivery_worker:DeliveryWorker.settle",
        Swap("JournalRefusedError", "SealError"),
        ("flow/test_refused_statements.py",),
    ),
    Bug(
        "the alert about nodes that differ clears and opens every five seconds",
        "engine.pipeline.maintenance.watch:Watch._gone",
        Drop("NODES"),
        ("flow/test_alerts.py",),
    ),
    Bug(
        "a secret is read relative to the folder in which the engine was started",
        "engine.config.source:_made",
        Value("folder", "None"),
        ("config/test_file_paths.py",),
    ),
    Bug(
        "the check misses that a channel writes numbers under systems that are not searched",
        "engine.pipeline.configuration:_not_as_searched",
        Value("channel is not None", "False"),
        ("pipeline/test_configuration.py",),
    ),
    Bug(
        "a held message is reported without its pair when it comes again",
        "engine.pipeline.inbound.application:standing",
        Code("EntryOutcome(*bad)", "EntryOutcome(bad.state, '')"),
        ("pipeline/inbound/test_application.py",),
    ),
    Bug(
        "a message that HTTP refuses for want of space is reported to nobody",
        "engine.pipeline.listeners:Listeners.refuse_post",
        Code(
            "self.posts_refused.setdefault(name, Refusals()).add(address, limit)",
            "self.posts_refused.setdefault(name, Refusals())",
        ),
        ("flow/test_alerts.py",),
    ),
    Bug(
        "a renewed certificate is noticed an hour late",
        "engine.pipeline.maintenance.watch:_Certificates.look",
        Drop("any(...)"),
        ("flow/test_alerts.py",),
    ),
    Bug(
        "a message that could not be stored is answered AA",
        "engine.pipeline.intake:Intake._refusal",
        Drop("finding", of="mode_of(...).acknowledgements(...)"),
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "a repeated message is answered differently the second time",
        "engine.pipeline.intake:Intake._stored",
        Unwrap("ack"),
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "two engines acknowledge each other's acknowledgements for ever",
        "engine.pipeline.inbound.judgement:Judgement.silent",
        Value("self.reason == ACKNOWLEDGEMENT", "False"),
        ("pipeline/test_intake.py",),
    ),
    Bug(
        "the merge limit lets one merge too many through",
        "engine.pipeline.inbound.merge_limit:MergeCounter.admit",
        Swap(">=", ">", of="near >= self._merges"),
        ("pipeline/inbound/test_merge_limit.py",),
    ),
    Bug(
        "merges go on although nobody has released them after the limit",
        "engine.pipeline.inbound.merge_limit:MergeRateLimiter._admits",
        Value("channel.channel in self.held", "False"),
        ("pipeline/inbound/test_merge_limit.py",),
    ),
    Bug(
        "a replay of last year's admissions queries the networks for every patient again",
        "engine.pipeline.outbound.follow_ups:happens_now",
        Drop("not claimed.replay"),
        ("pipeline/outbound/test_look_ups.py",),
    ),
    Bug(
        "a protected patient's data is queried on the networks",
        "engine.pipeline.outbound.follow_ups:is_restricted",
        Code("protected.strip().upper() not in {'', 'N'}", "protected.strip().upper() in {'YES'}"),
        ("pipeline/outbound/test_look_ups.py",),
    ),
    Bug(
        "a look-up that nobody answers is repeated for ever",
        "engine.pipeline.outbound.follow_ups:FollowUps._end_of",
        Code("tries >= MOST_TRIES", "tries > 10 * MOST_TRIES"),
        ("pipeline/outbound/test_look_ups.py",),
    ),
    Bug(
        "laboratory results are announced as ADT events",
        "engine.pipeline.outbound.follow_ups:is_announced",
        Code("message.leaf('MSH', 9, 1) == ADT", "message.leaf('MSH', 9, 1) != ''"),
        ("pipeline/outbound/test_notices.py",),
    ),
    Bug(
        "half a message is acknowledged, as it contains the byte that ends a block",
        "engine.receive.block:BlockReader._end",
        Code("following in {START, FEED}", "following != END"),
        ("receive/test_block.py",),
    ),
    Bug(
        "a message that contains the byte that ends a block is accepted",
        "engine.receive.block:BlockReader._complete",
        Value("END in raw", "False"),
        ("receive/test_block.py",),
    ),
    Bug(
        "a sender waits half a minute for the answer to a block with an end byte inside",
        "engine.receive.block:BlockReader.deadline",
        Drop("self._divided"),
        ("receive/test_block.py",),
    ),
    Bug(
        "a sender that omits the last byte waits until it gives up",
        "engine.receive.conversation:Timers.arm_by",
        Code("timer.when() > moment", "timer.when() > moment + 3600"),
        ("receive/test_conversation.py",),
    ),
    Bug(
        "a sender that omits the start byte waits for ever, and nobody learns of it",
        "engine.receive.conversation:Conversation.received",
        Drop("self._timers.arm(...)"),
        ("receive/test_conversation.py",),
    ),
    Bug(
        "a line feed that may end a segment is taken for text without a warning",
        "engine.pipeline.inbound.judgement:_unreadable_lines",
        Drop("yield Finding(...)", of=("if odd.unclear:\n    ...")),
        ("pipeline/inbound/test_judgement.py",),
    ),
    Bug(
        "a note that quotes a header is cut off as a message of its own",
        "engine.receive.batch:_lines",
        Value("enveloped", "True"),
        ("receive/test_batch.py",),
    ),
    Bug(
        "a sender that resets its connections is never let in again",
        "engine.receive.listener.connection:Socket.doRead",
        Value("CONNECTION_LOST", "None"),
        ("receive/test_resets.py",),
    ),
    Bug(
        "a connection that an internal error has ended keeps its place",
        "engine.receive.listener.connection:ListenerConnection.connectionLost",
        Drop("self._house.leave(...)"),
        ("receive/test_resets.py",),
    ),
    Bug(
        "a connection that cannot be written to remains open without service",
        "engine.receive.outbox:Outbox._flush",
        Code("self._failed(...)", "return"),
        ("receive/test_resets.py",),
    ),
)
