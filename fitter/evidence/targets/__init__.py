"""What each platform's evaluator template can say, and how it resolves."""
