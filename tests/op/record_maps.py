"""Writes maps.h: the maps of 8-bit optimizer states as torch computes them, by the formula of bitsandbytes 0.50.1
(create_dynamic_map of functional.py): for each of seven decades the midpoints of evenly spaced points, 0 and 1.
Run with: python record_maps.py > maps.h"""
import torch


def dynamic_map(signed):
    data = []
    for i in range(7):
        points = 2 ** i + 1 if signed else 2 ** (i + 1) + 1
        edges = torch.linspace(0.1, 1, points, dtype=torch.float32)
        means = (edges[:-1] + edges[1:]) / 2.0
        data += ((10 ** (i - 6)) * means).tolist()
        if signed:
            data += (-(10 ** (i - 6)) * means).tolist()
    data += [0, 1.0]
    assert len(data) == 256
    return torch.tensor(sorted(data), dtype=torch.float32)


print("/* maps.h: made by record_maps.py with torch %s. */" % torch.__version__)
for name, signed in (("signed_map", True), ("unsigned_map", False)):
    print("static const float %s[256] = {" % name)
    m = dynamic_map(signed).tolist()
    for i in range(0, 256, 8):
        print("    " + ", ".join("%.9gf" % x if "." in "%.9g" % x or "e" in "%.9g" % x else "%.9g.0f" % x for x in m[i:i + 8]) + ",")
    print("};")
