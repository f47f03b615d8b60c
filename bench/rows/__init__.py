"""Every benchmark row, in the order of the report. A new row is a new file and an entry here."""

from bench.row import Row
from bench.rows import call_latency, cold_start, memory, tools_list_cost

ROWS: tuple[Row, ...] = (
    cold_start.ROW,
    memory.ROW,
    tools_list_cost.DEFAULT_PROFILE,
    tools_list_cost.WHOLE_SET,
    call_latency.ROW,
)
