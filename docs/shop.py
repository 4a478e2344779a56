"""Simulate the shop of the tutorial: four weeks of searches, the products, and three rankings.

Everything is drawn from one seed, so the files are the same everywhere. LOOKED_AT is the true
position bias, which the model has to recover.
"""

import csv
from datetime import date, timedelta

import numpy as np

COLOURS = ["black", "white", "red", "blue", "green", "grey"]
THINGS = ["shoes", "jacket", "backpack", "tent", "lamp", "kettle", "mug", "chair", "desk", "scarf"]
LOOKED_AT = [1.0, 0.62, 0.45, 0.33, 0.25, 0.20]
PAGES_PER_DAY = 300

rng = np.random.default_rng(11)
queries = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
shape = (len(queries), 12)  # 12 products for each query

match = rng.beta(3, 3, shape)
rating = np.clip(rng.normal(4.0, 0.5, shape), 1, 5).round(1)
price = np.exp(rng.normal(3.5, 0.6, shape)).round(2)
taste = rng.normal(0, 0.5, shape)  # the part of relevance that no feature predicts
liked = -1.2 + 3 * (match - 0.5) + 1.2 * (rating - 4) - 0.4 * (np.log(price) - 3.5) + taste
relevance = 1 / (1 + np.exp(-liked))
product = np.arange(match.size).reshape(shape)
popular = 1 / np.arange(1, len(queries) + 1) ** 0.7

with open("products.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["query", "product_id", "match", "rating", "price"])
    for q, d in np.ndindex(shape):
        values = [f"{match[q, d]:.3f}", rating[q, d], price[q, d]]
        writer.writerow([queries[q], f"P{product[q, d]:04d}", *values])

rankers = {"old": match, "new": match + 0.3 * rating, "newer": match + 0.5 * rating}
for name, score in rankers.items():
    with open(f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "product_id", "position"])
        for q, query in enumerate(queries):
            for place, d in enumerate(np.argsort(-score[q])[: len(LOOKED_AT)], start=1):
                writer.writerow([query, f"P{product[q, d]:04d}", place])

search = 0
for week in (1, 2, 3, 4):
    with open(f"week{week}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        names = ["search_id", "day", "device", "query", "product_id", "url", "rank", "clicked"]
        writer.writerow(names)
        for day in range(7 * week - 7, 7 * week):
            for _ in range(PAGES_PER_DAY):
                search += 1
                q = rng.choice(len(queries), p=popular / popular.sum())
                # the live ranker sorts by match; stock and freshness move products around
                shown = np.argsort(-match[q] - rng.normal(0, 0.2, shape[1]))[: len(LOOKED_AT)]
                clicked = rng.random(len(shown)) < LOOKED_AT * relevance[q, shown]
                search_columns = [f"s{search:05d}", date(2026, 3, 2) + timedelta(days=day)]
                search_columns += [rng.choice(["desk", "phone"]), queries[q]]
                rows = []
                for rank, (d, click) in enumerate(zip(shown, clicked, strict=True)):
                    sku = f"P{product[q, d]:04d}"
                    rows.append([*search_columns, sku, f"/p/{sku.lower()}", rank, int(click)])
                # one search was sent twice
                writer.writerows(rows * 2 if search == 17 else rows)
