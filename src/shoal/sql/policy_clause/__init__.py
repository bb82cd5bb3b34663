"""SELECT WITH POLICY: bound over the public domain of a policy, never over the private table."""
