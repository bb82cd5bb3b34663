"""What ε means, in words and pictures; and help."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.accounting.claims.meaning import meaning
from shoal.web.console import charts
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import number, only

routes = APIRouter(include_in_schema=False)
LARGEST = 10.0


@routes.get("/meaning")
async def what_it_means(request: Request) -> Response:
    """Beliefs before and after, the best guesser, the coin."""
    session_of(request)
    only(request, {"epsilon", "delta", "prior"})
    epsilon, prior = number(request, "epsilon", 1.0, 0.001, 1000.0), number(request, "prior", 10.0, 0.0, 100.0)
    delta = number(request, "delta", 0.0, 0.0, 0.5)
    means = meaning(epsilon, delta)
    share = prior / 100
    low, high = means.posterior(share)
    coin, guess = means.honest_coin, means.best_guess(share)
    return await framed(
        request,
        "meaning.html",
        here="meaning",
        means=means.to_dict(share),
        epsilon=epsilon,
        prior=prior,
        delta=delta,
        largest=max(LARGEST, epsilon),
        low=low,
        high=high,
        coin=coin,
        guess=guess,
        beliefs=charts.beliefs(means.posterior, share, "Belief before against the band of beliefs after"),
        dots=charts.hundred(round(100 * guess), f"The best guesser is right {round(100 * guess)} times in 100"),
        coins=charts.hundred(round(100 * coin), f"{round(100 * coin)} of 100 answers are true"),
    )


@routes.get("/help")
async def help_page(request: Request) -> Response:
    """How to ask, on one page."""
    session_of(request)
    only(request, set())
    return await framed(request, "help.html", here="help")
