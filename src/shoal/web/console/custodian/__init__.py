"""Pages for custodians: decisions, people, the log, tuning."""
