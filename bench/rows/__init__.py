"""Every benchmark row, in the order of the report. A new row is a new file and an entry here."""

from bench.row import Row
from bench.rows import (
    call_latency,
    cold_start,
    e2e_dossier,
    e2e_start,
    e2e_steps,
    memory,
    observe_bodies,
    observe_flood,
    observe_memory,
    observe_push,
    observe_read,
    tools_list_cost,
)

ROWS: tuple[Row, ...] = (
    cold_start.ROW,
    memory.ROW,
    tools_list_cost.DEFAULT_PROFILE,
    tools_list_cost.WHOLE_SET,
    call_latency.ROW,
    observe_flood.TEN_THOUSAND,
    observe_flood.HUNDRED_THOUSAND,
    observe_bodies.ROW,
    observe_read.IDLE,
    observe_read.FILTER,
    observe_read.FLOOD_P50,
    observe_read.FLOOD_P99,
    observe_push.ROW,
    observe_memory.FULL_RING,
    observe_memory.FLOOD,
    e2e_start.ROW,
    e2e_steps.CLICK,
    e2e_steps.TYPE,
    e2e_steps.EVALUATE,
    e2e_steps.NAVIGATE,
    e2e_steps.SCREENSHOT,
    e2e_dossier.LATE,
    e2e_dossier.TOKENS,
)
