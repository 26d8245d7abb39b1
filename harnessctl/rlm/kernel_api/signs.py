"""What code in a kernel tells the host beside output: types of messages, and a name.

The host reads these too; nothing here may need an import.
"""

from __future__ import annotations

#: Mime type of the message that carries the text given to ``final()``.
FINAL_MIME = "application/vnd.harnessctl.final+json"
#: Mime type of the message that says how much of a stream was not sent.
SKIPPED_MIME = "application/vnd.harnessctl.skipped+json"
#: Mime type of the message that says what a cell changed among the variables.
VARIABLES_MIME = "application/vnd.harnessctl.variables+json"
#: Class name of the exception that ends the cell then.
FINAL_NAME = "Final"
