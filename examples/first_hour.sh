#!/usr/bin/env bash
# The first hour with twoafc, from the demo to a table in a paper. Run it in an empty folder: bash first_hour.sh
set -euo pipefail

echo "# 1. The demo: five distances, simulated observers"
twoafc demo --triplets 800 --out demo

echo "# 2. Your own table: is it what you think it is, and what is the answer?"
twoafc check demo/train.csv --test demo/test.csv
twoafc evaluate --train demo/train.csv --test demo/test.csv --out results

echo "# 3. A question that you had before: is anything better than ssim?"
twoafc compare results --baseline ssim

echo "# 4. The same in Python, with frames"
python - <<'PYTHON'
import pandas as pd

import twoafc

train, test = (pd.read_csv(f"demo/{name}.csv") for name in ("train", "test"))
result = twoafc.evaluate(train, test, distances=["ssim", "euclidean"])
print(result)
print(type(result.summary()).__module__, list(result.summary()["distance"]))
print(result.compare(pairs=[("ssim", "euclidean")]))
PYTHON

echo "# 5. A metric of your own: is it a distance?"
cat > mine.py <<'PYTHON'
import numpy as np


def blocks(ref, x):
    """Root mean squared difference of 8 x 8 block means."""
    means = [batch.reshape(*batch.shape[:2], batch.shape[2] // 8, 8, -1, 8).mean((3, 5)) for batch in (ref, x)]
    return np.sqrt(((means[0] - means[1]) ** 2).mean((1, 2, 3)))
PYTHON
python -c "import mine, twoafc; print(twoafc.check_distance(mine.blocks))"

echo "# 6. Your own images and the answers of a study"
python - <<'PYTHON'
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from twoafc import worlds

images = worlds.photograph_triplets(60, seed=3)
votes = worlds.observers(images.ref, images.x0, images.x1, 3, seed=4)
Path("photographs").mkdir(exist_ok=True)
rows = []
for k in range(60):
    names = {role: f"{role}-{k}.png" for role in ("ref", "x0", "x1")}
    for role, name in names.items():
        pixels = np.rint(255 * np.moveaxis(getattr(images, role)[k], 0, -1)).astype(np.uint8)
        Image.fromarray(pixels).save(Path("photographs", name))
    for person in range(3):
        answer = "right" if person < votes.n[k] else "left"
        rows.append({"participant": f"p{person}", **names, "response": answer, "rt": 700})
pl.DataFrame(rows).write_csv("study.csv")
PYTHON
twoafc measure study.csv --images photographs --rename response=choice --rename participant=observer \
    --distance ssim,rmse,mine:blocks --out measured.parquet
twoafc evaluate --train measured.parquet --images photographs --baseline rmse --out study

echo "# 7. For the paper, and to send"
head -3 study/tables.tex
ls study/figures study/report.html
