"""How long the parts of a growth took, from a service's Events and pods."""

import datetime


def seconds_of(time):
    """Since 1970, of an RFC 3339 time."""
    return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


def parts_of(decided, events, starts=()):
    """Seconds of a growth that was decided at `decided`, or None if a later decision went on with its pods: until its first
    pods were made, their containers had started, all had loaded their experts and were connected, and they served. `events`:
    as the API has them. `starts`: when containers started, whole seconds; without them loading includes starting."""

    def first(reason, after, words=""):
        return min((at for one in events if one["reason"] == reason and words in one["note"]
                    and (at := seconds_of(one["eventTime"])) >= after), default=None)

    made = first("Created", decided - 1, " Pod")
    prepared = made and first("TopologyPrepared", made)
    committed = prepared and first("TopologyCommitted", prepared)
    if not committed:
        return None
    parts = {"deciding": made - decided}
    began = made
    if starts:
        began = max((one for one in starts if made - 1 <= one <= prepared), default=made)
        parts["starting"] = began - made
    parts |= {"loading": prepared - began, "commit": committed - prepared}
    return {name: round(max(took, 0), 2) for name, took in parts.items()}
