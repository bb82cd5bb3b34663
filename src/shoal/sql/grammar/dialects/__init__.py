"""Translates other databases' spellings into ours."""
