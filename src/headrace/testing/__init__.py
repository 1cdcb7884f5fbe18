"""Testing an app: epochs in memory of one process, a clock that moves when told, crashes where a test wants them.

from headrace.testing import Crash, run_epochs

def test_opens_are_counted():
    out = run_epochs(app, [[{"phone_id": "a", "action": "open"}], [Crash(after="compute"), {"phone_id": "a", "action": "open"}]])
    assert out.table("opens") == [{"phone_id": "a", "n": 2}]
    out.verify()
"""

from headrace.clock import ManualClock
from headrace.testing.epochs import Crash, Idle, Late, Outcome, run_epochs
from headrace.testing.trial import Trial

__all__ = ["Crash", "Idle", "Late", "ManualClock", "Outcome", "Trial", "run_epochs"]
