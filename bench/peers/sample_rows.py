"""Draws rows of two CSV files of text and label, for measurements on a part of them: always the same; tested are labels that were learned.

usage: sample_rows.py TRAIN.csv TEST.csv ROWS TEST_ROWS FOLDER [LABELS]      FOLDER/train.csv and FOLDER/test.csv; LABELS: only rows with
                                                                            one of so many labels, the first by name
"""
import csv
import pathlib
import random
import sys

train, test, n_train, n_test, folder, *some = sys.argv[1:]


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def write(name, rows):
    with open(pathlib.Path(folder, name), "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


header, *rows = read(train)
if some:
    first = set(sorted({label for _, label in rows})[:int(some[0])])
    rows = [row for row in rows if row[1] in first]
learned = random.Random(1).sample(rows, min(int(n_train), len(rows)))
labels = {label for _, label in learned}
known = [row for row in read(test)[1:] if row[1] in labels]
write("train.csv", [header] + learned)
write("test.csv", [header] + random.Random(2).sample(known, min(int(n_test), len(known))))
