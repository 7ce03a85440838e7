"""Figures for anybody's predictions, and a second look at runs: score, replay, compare, plan, estimate."""
