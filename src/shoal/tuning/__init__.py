"""Tuning: what ε, groups per owner and bounds do to one question, exactly, on raw data. Not private; for the custodian's eyes.

from shoal import tuning
found = tuning.tune("data/", "shoal.toml", sql, epsilon=[0.5, 1, 2], groups=[1, 2, 5])
"""

from shoal.tuning.tune import NOT_PRIVATE, OpenTuning, Setting, Tuning, tune, tune_in

__all__ = ["NOT_PRIVATE", "OpenTuning", "Setting", "Tuning", "tune", "tune_in"]
