#!/usr/bin/env python3
"""A number cruncher: the longest Collatz chain below a bound, counted in two worker processes."""

import multiprocessing
import sys

BOUND = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000


def longest_chain(span: range) -> tuple[int, int]:
    """(steps, start) of the longest chain that starts inside `span`."""
    best = (0, 1)
    for start in span:
        steps, number = 0, start
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            steps += 1
        best = max(best, (steps, start))
    return best


if __name__ == "__main__":
    halves = [range(1, BOUND // 2), range(BOUND // 2, BOUND)]
    with multiprocessing.Pool(len(halves)) as pool:
        steps, start = max(pool.map(longest_chain, halves))
    print(f"longest chain below {BOUND}: {steps} steps from {start}")
