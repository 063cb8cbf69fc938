from __future__ import annotations

from hami_nvidia.links import pair_scores
from hami_nvidia.nvml import Card, Link


def cards(count):
    return [Card(i, f"gpu{i}", "x", i, 1, f"00000000:0{i}:00.0") for i in range(count)]


def wired(pairs, count):
    links = {f"gpu{i}": [] for i in range(count)}
    for (one, other), number in pairs.items():
        links[f"gpu{one}"] += [Link(f"0000:0{other}:00.0", False)] * number
        links[f"gpu{other}"] += [Link(f"0000:0{one}:00.0", False)] * number
    return links


def test_pair_scores_equal_hamis_example():
    pairs = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2}
    scores, uneven = pair_scores(cards(4), lambda a, b: -1, wired(pairs, 4))
    assert not uneven
    assert scores == {
        "gpu0": {"gpu1": 100, "gpu2": 100, "gpu3": 200},
        "gpu1": {"gpu0": 100, "gpu2": 200, "gpu3": 100},
        "gpu2": {"gpu0": 100, "gpu1": 200, "gpu3": 200},
        "gpu3": {"gpu0": 200, "gpu1": 100, "gpu2": 200},
    }


def test_levels_without_links():
    levels = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
    for level, score in levels.items():
        assert pair_scores(cards(2), lambda a, b, n=level: n, {})[0]["gpu0"] == {"gpu1": score}


def test_unequal_link_counts_score_zero():
    links = {"gpu0": [Link("0000:01:00.0", False)] * 2, "gpu1": [Link("0000:00:00.0", False)]}
    scores, uneven = pair_scores(cards(2), lambda a, b: 50, links)
    assert scores == {"gpu0": {"gpu1": 0}, "gpu1": {"gpu0": 0}}
    assert uneven == [("gpu0", "gpu1")]


def test_switched_links_count_as_the_smaller_number():
    links = {"gpu0": [Link("s", True)] * 18, "gpu1": [Link("s", True)] * 12}
    assert pair_scores(cards(2), lambda a, b: 40, links)[0]["gpu0"] == {"gpu1": 20 + 1200}
