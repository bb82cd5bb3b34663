"""The stochastic tester: neighbours, events, verdicts."""
