"""The mathematics of privacy claims: profiles, composition, shuffling, and what an epsilon means."""
