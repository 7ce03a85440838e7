"""The embedded default judge, drafter and proposer: no model, no network, fully transparent."""
