"""Put two mechanisms before the stochastic tester: a correct one, and one whose average divides by an exact count."""

import numpy as np

from shoal import audit

noise = np.random.default_rng(0)


def noisy_count(people: list[float], samples: int) -> np.ndarray:
    """A count with Laplace noise: (1, 0)-private."""
    return len(people) + noise.laplace(scale=1.0, size=samples)


def careless_average(people: list[float], samples: int) -> np.ndarray:
    """A noisy sum of values in [0, 1] over the exact number of people: not private, whatever the noise."""
    total = np.clip(people, 0, 1).sum() + noise.laplace(scale=1.0, size=samples)
    return total / max(1, len(people))


for mechanism in (noisy_count, careless_average):
    verdict = audit.check(mechanism, epsilon=1.0)
    print(f"{mechanism.__name__}: {verdict}\n")
