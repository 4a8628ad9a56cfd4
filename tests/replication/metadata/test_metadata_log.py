"""The metadata log of a node that is its quorum's only voter."""

from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.raft.election_state import ElectionState
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from .opened_metadata import DATA, NODE_ID


def test_every_start_leads_the_next_epoch() -> None:
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs(DATA)
    for epoch in (1, 2):
        log = open_metadata_log(LogDir(files, DATA), NODE_ID, 0)
        log.become_leader(0)
        log.flush()
        assert log.state == ElectionState(epoch, NODE_ID, voter_ids=(NODE_ID,))
        log.close(0)
