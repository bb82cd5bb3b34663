"""From a verified plan to an answer: exact totals in, noisy numbers out."""
