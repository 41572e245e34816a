"""Records what scikit-learn's compute_class_weight("balanced") gives for counts of classes: class_weights.json. Run with:
python record_class_weights.py (the version used is in the file).
"""
import json, os
import numpy as np, sklearn
from sklearn.utils.class_weight import compute_class_weight

cases = []
for counts in [[1, 1], [5, 3, 2], [1000, 1], [7, 7, 7, 7], [3, 10, 400, 1, 86], [12]]:
    y = np.repeat(np.arange(len(counts)), counts)
    cases.append(dict(counts=counts, weights=compute_class_weight("balanced", classes=np.arange(len(counts)), y=y).tolist()))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "class_weights.json"), "w") as f:
    json.dump({"versions": f"scikit-learn {sklearn.__version__}", "cases": cases}, f, indent=1)
    f.write("\n")
