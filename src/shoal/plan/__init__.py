"""The plan as frozen data: types, expressions, relations, measures, aggregates, releases."""
