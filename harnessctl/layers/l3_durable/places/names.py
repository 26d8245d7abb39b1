"""Names of the refs that harnessctl owns; each outside ``refs/heads``, so that no push publishes it."""

PROPOSALS = "refs/harness/proposals/"
DECISIONS = "refs/harness/decisions/"
LIVE = "refs/harness/live/"
RESCUE = "refs/harness/rescue/"
