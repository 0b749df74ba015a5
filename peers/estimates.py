#!/usr/bin/env python3
"""Reference results for the statistics of crates/analysis, from SciPy.

Writes crates/analysis/tests/golden/statistics.json: samples and SciPy's results for them. Where SciPy does not compute an exact result
(signed ranks and Mann-Whitney U with ties), this script enumerates every permutation. Where SciPy lacks a function (Hodges-Lehmann
intervals), it applies the definition: the interval contains every factor that the exact test does not reject at 5 %.
The bootstrap distribution of a sample of five is enumerated (5^5 resamples), so the limits of the BCa interval have no
Monte-Carlo error.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import scipy
from scipy import stats

OUT = Path(__file__).resolve().parents[1] / "crates/analysis/tests/golden"


def samples():
    """Returns named samples of rounded numbers, so that the file is small and the same on every machine."""
    random = np.random.default_rng(20)
    draw = lambda values, digits: [float(x) for x in np.round(values, digits)]
    return {
        "normal_5": draw(random.normal(10, 1, 5), 4),
        "normal_5_shifted": draw(random.normal(12, 1, 5), 4),
        "normal_8": draw(random.normal(10, 2, 8), 4),
        "normal_12": draw(random.normal(11, 2, 12), 4),
        "ticks_7": draw(random.normal(5, 1.5, 7), 0),
        "ticks_9": draw(random.normal(6, 1.5, 9), 0),
        "log_normal_30": draw(random.lognormal(0, 0.6, 30), 4),
        "log_normal_40": draw(random.lognormal(0.2, 0.6, 40), 4),
        "ticks_30": draw(random.normal(5, 2, 30), 0),
        "ticks_45": draw(random.normal(6, 2, 45), 0),
    }


def mann_whitney(a, b):
    tied = len(set(a + b)) < len(a + b)
    small = len(a) + len(b) <= 40
    if small and tied:
        method = stats.PermutationMethod(n_resamples=np.inf, batch=10_000)
    else:
        method = "exact" if small else "asymptotic"
    result = stats.mannwhitneyu(a, b, method=method)
    return {"u": float(result.statistic), "p": float(result.pvalue)}


def signed_rank(a, b):
    differences = [x - y for x, y in zip(a, b)]
    differences = [d for d in np.round(differences, 4) if d != 0]
    tied = len(set(np.abs(differences))) < len(differences)
    method = stats.PermutationMethod(n_resamples=np.inf) if tied else "exact"
    return float(stats.wilcoxon(differences, method=method).pvalue)


def hodges_lehmann(a, b):
    """Returns the median quotient, and the smallest and largest factor f for which the exact test does not reject a = f*b."""
    quotients = sorted(x / y for x in a for y in b)
    middle = np.exp(np.median(np.log(quotients)))
    # The result of the test changes only at quotients, so test both sides of each quotient.
    sides = [f * side for f in quotients for side in (1 - 1e-9, 1 + 1e-9)]
    accepted = [f for f in sides if stats.mannwhitneyu(a, [f * y for y in b], method="exact").pvalue > 0.05]
    return {"ratio": float(middle), "low": float(min(accepted)), "high": float(max(accepted))}


def bca_mean(values):
    """Returns the limits of the BCa interval of the mean over all n^n resamples."""
    resamples = np.sort([np.mean(r) for r in itertools.product(values, repeat=len(values))])
    mean = np.mean(values)
    below = (np.sum(resamples < mean - 1e-12) + np.sum(resamples <= mean + 1e-12)) / 2 / len(resamples)
    z0, z = stats.norm.ppf(below), stats.norm.ppf(0.975)
    jackknife = np.array([np.mean(np.delete(values, i)) for i in range(len(values))])
    d = jackknife.mean() - jackknife
    a = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
    tails = [stats.norm.cdf(z0 + (z0 + s) / (1 - a * (z0 + s))) for s in (-z, z)]
    low, high = np.quantile(resamples, tails)
    return {"low": float(low), "high": float(high)}


def tost(a, b, margin):
    shift = lambda by: [x + by for x in a]
    upper = stats.ttest_ind(shift(-margin), b, equal_var=False, alternative="less")
    lower = stats.ttest_ind(shift(margin), b, equal_var=False, alternative="greater")
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.9)
    return {
        "margin": margin,
        "p": float(max(upper.pvalue, lower.pvalue)),
        "low": float(interval.low),
        "high": float(interval.high),
    }


def welch(a, b):
    """Returns Welch's test of b minus a."""
    test = stats.ttest_ind(b, a, equal_var=False)
    interval = test.confidence_interval(0.95)
    return {"value": float(np.mean(b) - np.mean(a)), "low": float(interval.low), "high": float(interval.high), "p": float(test.pvalue), "freedom": float(test.df)}


def main():
    s = samples()
    pairs = [
        ("normal_5", "normal_5_shifted"), ("normal_8", "normal_12"), ("ticks_7", "ticks_9"), ("normal_5", "ticks_9"),
        ("log_normal_30", "log_normal_40"), ("ticks_30", "ticks_45"), ("normal_12", "log_normal_40"),
    ]  # fmt: skip
    same_length = [("normal_5", "normal_5_shifted"), ("normal_8", "normal_12"), ("ticks_7", "ticks_9"), ("ticks_30", "ticks_45")]
    truncated = lambda a, b: tuple(s[name][: min(len(s[a]), len(s[b]), 16)] for name in (a, b))
    ps = [0.011, 0.04, 0.002, 0.5, 0.03]
    order = np.argsort(ps)
    steps = np.array([(len(ps) - i) * ps[at] for i, at in enumerate(order)])
    holm = np.empty(len(ps))
    holm[order] = np.minimum(np.maximum.accumulate(steps), 1)

    results = {
        "mad": {name: float(stats.median_abs_deviation(values)) for name, values in s.items()},
        "quantile": [
            {"of": name, "at": q, "is": float(np.quantile(s[name], q))}
            for name in ("normal_8", "ticks_9", "log_normal_30") for q in (0.025, 0.25, 0.5, 0.9)
        ],
        "wilson": [
            {"hits": k, "n": n, **dict(zip(("low", "high"), map(float, stats.binomtest(k, n).proportion_ci(method="wilson"))))}
            for k, n in ((0, 7), (3, 7), (81, 263), (9196, 9996), (50, 50))
        ],
        "mann_whitney": [{"first": a, "second": b, **mann_whitney(s[a], s[b])} for a, b in pairs],
        "signed_rank": [{"first": a, "second": b, "n": len(truncated(a, b)[0]), "p": signed_rank(*truncated(a, b))} for a, b in same_length],
        "hodges_lehmann": [{"first": a, "second": b, **hodges_lehmann(s[a], s[b])} for a, b in pairs[:2]],
        "mcnemar": [
            {"first": a, "second": b, "p": float(stats.binomtest(a, a + b).pvalue)}
            for a, b in ((0, 5), (3, 11), (40, 61), (500, 431), (9000, 9300))
        ],
        "holm": {"p": ps, "adjusted": [float(x) for x in holm]},
        "bca_mean": {"of": "normal_5", **bca_mean(s["normal_5"])},
        "tost": [
            {"first": a, "second": b, **tost(s[a], s[b], margin)}
            for a, b, margin in (("normal_5", "normal_8", 1.5), ("log_normal_30", "log_normal_40", 0.7), ("ticks_7", "ticks_9", 3.0))
        ],
        "welch": [{"baseline": a, "candidate": b, **welch(s[a], s[b])} for a, b in pairs],
        "welch_of_logarithms": [{"baseline": a, "candidate": b, **welch(np.log(s[a]), np.log(s[b]))} for a, b in pairs],
        "trend_p": {name: float(stats.spearmanr(range(len(s[name])), s[name]).pvalue) for name in ("normal_12", "log_normal_30", "ticks_45")},
        "median_order_statistics": [
            {"n": n, "within": d, "covers": float(1 - 2 * stats.binom.cdf(d - 1, n, 0.5))}
            for n in (6, 20, 21, 1000) for d in (int(stats.binom.ppf(0.025, n, 0.5)),)
        ],
    }  # fmt: skip
    OUT.mkdir(parents=True, exist_ok=True)
    section = lambda value: (
        "[\n    " + ",\n    ".join(json.dumps(row) for row in value) + "\n  ]" if isinstance(value, list) else json.dumps(value)
    )
    lines = ",\n".join(f"  {json.dumps(name)}: {section(value)}" for name, value in results.items())
    body = ",\n".join(f"    {json.dumps(name)}: {json.dumps(values)}" for name, values in s.items())
    (OUT / "statistics.json").write_text(
        '{\n  "generated": "by peers/estimates.py; do not edit",\n'
        f'  "versions": {{"scipy": "{scipy.__version__}", "numpy": "{np.__version__}"}},\n'
        f'  "samples": {{\n{body}\n  }},\n{lines}\n}}\n'
    )
    print(f"{sum(map(len, results.values()))} results")


if __name__ == "__main__":
    main()
