"""Pages of those who look after a service: decisions, people, the log, tuning."""
