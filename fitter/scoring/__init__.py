"""Pure statistics: votes, metrics, intervals, paired comparison, score cards."""
