"""Collects the actions of one event of a classic group for the coordinator to carry out."""

from ..group_actions import (
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    JoinResult,
    SetTimer,
    SyncResult,
    TimerKey,
    TimerKind,
)
from .group_members import ClassicMember


class PendingActions:
    """Collects actions: answers to parked requests, timers, writes."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._actions: list[Action] = []

    def __len__(self) -> int:
        return len(self._actions)

    def append(self, action: Action) -> None:
        """Append an action."""
        self._actions.append(action)

    def drain(self) -> list[Action]:
        """Return the actions and clear the list."""
        actions, self._actions = self._actions, []
        return actions

    def answer_join(self, member: ClassicMember, result: JoinResult) -> bool:
        """Answer a parked join; False if there is none."""
        if member.join_waiter is None:
            return False
        self._actions.append(CompleteJoin(member.join_waiter, result))
        member.join_waiter = None
        return True

    def answer_sync(self, member: ClassicMember, result: SyncResult) -> bool:
        """Answer a parked sync; False if there is none."""
        if member.sync_waiter is None:
            return False
        self._actions.append(CompleteSync(member.sync_waiter, result))
        member.sync_waiter = None
        return True

    def set_timer(self, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        """Set a timer of the group or of a member to expire after `delay_ms`."""
        self._actions.append(SetTimer(TimerKey(self._group_id, kind, member_id), delay_ms))

    def cancel_timer(self, kind: TimerKind, member_id: str = "") -> None:
        """Cancel a timer of the group or of a member."""
        self._actions.append(CancelTimer(TimerKey(self._group_id, kind, member_id)))

    def restart_session(self, member: ClassicMember) -> None:
        """Give the member a full session timeout from now."""
        self.set_timer(TimerKind.SESSION, member.session_timeout_ms, member.member_id)
