"""From demands to a table that meets them: the search for levels, local recoding, the output, re-usable transformations."""
