"""What is done for an attempt: the effects of its table, which `effects.py` carries out."""

from __future__ import annotations

import enum

__all__ = ["Effect"]


class Effect(enum.Enum):
    """What the agent does. What those that begin with `record` write is durable before any other effect after them begins."""

    RECORD_CANCEL = "record the intent to end it"
    RECORD_STATE = "record where it stands"
    RECORD_END = "record its end"
    RECORD_PROLOG_FAILED = "record that the node drains, for its prolog"
    RECORD_EPILOG = "record that the epilog is done"
    RECORD_EPILOG_FAILED = "record that the node drains, for its epilog"
    RECORD_RELEASED = "record that its resources are free"
    RECORD_REPORTED = "record that its end is reported"
    RECORD_REFUSED = "record that its report was refused"
    RECORD_HELD = "record that it is held, and why"
    RECORD_FORGOTTEN = "record that nothing is owed any more"
    RUN_PROLOG = "run the node's prolog"
    PREPARE = "make its script and scratch folder"
    LAUNCH = "launch its step"
    WATCH = "watch its step"
    TERMINATE = "have its kill plan walked"
    RUN_EPILOG = "run the node's epilog"
    RELEASE = "give its resources back"
    OFFER_REPORT = "offer its report"
    REMOVE_STEP = "acknowledge its step, and remove its folder"
    REMOVE_HOOKS = "remove the records of its hooks"
    REMOVE_SPOOL = "remove its script and scratch folder"
    LEAVE = "know nothing of it any more"
