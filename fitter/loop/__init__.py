"""The fit: graph, draft, census, proposal, guard, keep rule, stopping."""
