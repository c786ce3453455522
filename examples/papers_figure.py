"""A figure of a paper, again: the error of tensor starts over samples (Zhong et al.
2017, figure 1b), on a small grid."""

from pathlib import Path

from laybare.studies import STUDIES
from laybare.studies.zhong import DimensionGrid

study = STUDIES["zhong-fig1b"]
print(study.title)

# `laybare reproduce zhong-fig1b --full` has the paper's grid
settings = study.settings(seeds=[0, 1])
small = DimensionGrid(dims=(10,), samples=(500, 1000, 2000))
result = study.run(type(settings)(settings.seeds, small))

print(*result.columns, sep=" | ")
for row in result.rows:
    cells = (f"{cell:.1f}" if isinstance(cell, float) else cell for cell in row)
    print(*cells, sep=" | ")

files = result.write(Path("figure"), "zhong-fig1b")
print("written:", ", ".join(file.name for file in files))
