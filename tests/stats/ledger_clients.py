"""Sixteen processes with four clients each that spend one ledger's budget; run as a program.

It is a program of its own because a process that has run queries has threads, and a child forked from it may not start
threads safely.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError

PROCESSES, CLIENTS, TIMES = 16, 4, 20
THOUSANDTH = Loss(Fraction(3, 1000), Fraction(1, 10**9))


def in_turn(act):
    """What an act comes to when its turn has come: on a busy machine, whoever waits at a file for a minute is told to try again."""
    while True:
        try:
            return act()
        except ShoalError as error:
            if "locked by another process" not in error.message:
                raise


def spend(path):
    """What each of this client's reservations came to."""
    ledger = in_turn(partial(Ledger.open, path))
    outcomes = []
    for _ in range(TIMES):
        try:
            reservation = in_turn(partial(ledger.reserve, THOUSANDTH))
            in_turn(partial(reservation.commit, b"rows"))
            outcomes.append("released")
        except ShoalError as error:
            outcomes.append(error.code)
    return outcomes


def spend_often(path, start):
    """Spend from several threads at once, and print how many were released and refused."""
    os.read(start, 1)
    with ThreadPoolExecutor(CLIENTS) as threads:
        outcomes = [outcome for client in threads.map(spend, [path] * CLIENTS) for outcome in client]
    os.write(1, f"{outcomes.count('released')} {outcomes.count('E_BUDGET')}\n".encode())


def main(path):
    """Fork all processes, let them go at once, and end with 1 if one of them did not end well."""
    start, go = os.pipe()
    children = []
    for _ in range(PROCESSES):
        children.append(os.fork())
        if children[-1] == 0:
            status = 1
            try:
                spend_often(path, start)
                status = 0
            finally:
                os._exit(status)
    os.write(go, b"x" * PROCESSES)
    endings = [os.waitpid(child, 0)[1] for child in children]
    return int(any(endings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
