"""From a declared tool to an answer on the wire: calls, rendering, transports, push."""
