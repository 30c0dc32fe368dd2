"""Significance groups as letters: distances that share a letter cannot be told apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from string import ascii_lowercase


def letters(names: Sequence[str], different: Collection[tuple[str, str]]) -> dict[str, str]:
    """Give letters to names, in their order, so that two share one exactly if they are not different.

    The compact display of Piepho (Journal of Computational and Graphical Statistics 13, 2004): sets are split wherever
    two of their members differ, and those inside another are dropped.

    Parameters
    ----------
    names : sequence of str
        The best first.
    different : collection of pairs
        In either order.

    Examples
    --------
    >>> letters(["lpips", "dists", "ssim"], [("lpips", "ssim")])
    {'lpips': 'a', 'dists': 'ab', 'ssim': 'b'}
    """
    apart = {frozenset(pair) for pair in different}
    sets = [frozenset(names)]
    for pair in (frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]):
        if pair not in apart:
            continue
        split = [kept for each in sets for kept in ([each - {one} for one in pair] if pair <= each else [each])]
        distinct = list(dict.fromkeys(split))
        sets = [each for each in distinct if not any(each < other for other in distinct)]
    place = {name: i for i, name in enumerate(names)}
    ordered = sorted(sets, key=lambda each: sorted(place[name] for name in each))
    return {name: "".join(_letter(k) for k, each in enumerate(ordered) if name in each) for name in names}


def _letter(number: int) -> str:
    """A to z, then a2, b2, ..."""
    turn, letter = divmod(number, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(turn + 1) if turn else "")
