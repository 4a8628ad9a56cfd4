"""What each fault is, in a sentence for the page and for `--list`."""

from collections.abc import Mapping

from .fault import Fault, meaning_of

_SAYS: Mapping[str, str] = {
    "disk_full": "Writes fail with ENOSPC until the broker has ended; it starts again with space.",
    "disk_read_error": "One read in four fails with EIO.",
    "disk_write_error": "One write in 50 fails with EIO until the broker has ended.",
    "disk_sync_error": "fsync fails with EIO until the broker has ended.",
    "disk_slow": "One call in ten to the disk takes 0.2 s longer.",
    "clock_seconds_ahead": "A node's clock jumps ahead by 2 s to 2 min, and back.",
    "clock_hours_ahead": "A node's clock jumps ahead by 1 to 12 hours, and back.",
    "clock_behind": "A node's clock jumps back by 2 s to 50 min, and forward again.",
    "store_down": "The remote store accepts no connection.",
    "store_slow": "Every request to the remote store takes 2 s longer.",
    "store_errors": "Every second request to the remote store is answered with 500 or 503.",
    "store_lost_answers": (
        "Every second request to the remote store is done, and not answered: the connection closes."
    ),
    "damage_segments": "A killed node starts with bytes flipped in what its log recovers.",
    "damage_cut_off": "A killed node starts with the end of its active segments cut off.",
    "damage_torn_write": "A killed node starts with garbage after the end of its active segments.",
    "damage_indexes": "A killed node starts with damaged offset, time and transaction indexes.",
    "damage_checkpoints": "A killed node starts with damaged checkpoint files.",
    "damage_snapshots": "A killed node starts with damaged producer snapshots.",
    "damage_marker": "A node that stopped cleanly starts without the mark that it did.",
    "stale_image": "A node starts with its own directory of some time before.",
    "disk_replaced": "A killed node starts with an empty, newly formatted disk.",
    "directories_swapped": (
        "Two nodes get each other's directory, must refuse to start, and start with their own."
    ),
}


def says(fault: Fault) -> str:
    """What a fault is; what its class says about itself where the table has nothing."""
    return _SAYS.get(fault.name) or meaning_of(fault)
