"""The journal of every model call, and the ledger over it."""
