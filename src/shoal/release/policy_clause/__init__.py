"""SELECT WITH POLICY: planned over the domain, answered from the domain histogram of the private table."""
