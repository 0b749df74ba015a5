"""Cuts the fonts of the figures from Inter. Usage: python subset.py FOLDER_WITH_INTER_OTF"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
for weight in ["Regular", "SemiBold"]:
    font = TTFont(Path(sys.argv[1], f"Inter-{weight}.otf"))
    features = font["GSUB"].table.FeatureList.FeatureRecord
    tabular = next(record.Feature for record in features if record.FeatureTag == "tnum")
    figures = {}
    for index in tabular.LookupListIndex:
        for table in font["GSUB"].table.LookupList.Lookup[index].SubTable:
            figures.update(getattr(table, "ExtSubTable", table).mapping)
    cmap = font.getBestCmap()
    digits = {code: figures[cmap[code]] for code in range(0x30, 0x3A)}
    for table in font["cmap"].tables:
        table.cmap.update((code, glyph) for code, glyph in digits.items() if code in table.cmap)
    options = subset.Options(layout_features=[], hinting=False)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=[*range(0x20, 0x7F), *range(0xA0, 0x180), *map(ord, "–—‘’“”•…′←↑→↓×−≈≤≥⁰⁴⁵⁶⁷⁸⁹⁻μ")])
    cut.subset(font)
    font.save(f"Inter-{weight}.otf")
