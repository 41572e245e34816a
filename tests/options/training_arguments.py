"""Records training_arguments_X.Y.json: the names and defaults of transformers' TrainingArguments and the names of its
optimizers, schedules and strategies. The sources are read, not imported, so no torch is needed:

    pip download --no-deps transformers==5.17.0 && unzip -q transformers-*.whl
    python training_arguments.py transformers 5.17.0 > training_arguments_5.17.json
    # and 4.57.1, 5.23.0 likewise
"""
import ast
import json
import sys

folder, version = sys.argv[1:]


def class_body(path, name):
    for node in ast.parse(open(f"{folder}/{path}").read()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.body
    raise SystemExit(f"{path}: no class {name}")


def words(path, name):
    return [n.value.value for n in class_body(path, name) if isinstance(n, ast.Assign)]


fields, variables = {}, {}
for n in class_body("training_args.py", "TrainingArguments"):
    if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant):
        variables[n.targets[0].id] = n.value.value
    if not isinstance(n, ast.AnnAssign):
        continue
    for k in n.value.keywords:
        if k.arg == "default":
            name = getattr(k.value, "id", None)
            fields[n.target.id] = variables[name] if name else ast.literal_eval(k.value)
        elif k.arg == "default_factory":
            fields[n.target.id] = {"list": [], "dict": {}}[k.value.id]

json.dump({
    "source": f"transformers {version}",
    "fields": fields,
    "optim": words("training_args.py", "OptimizerNames"),
    "lr_scheduler_type": words("trainer_utils.py", "SchedulerType"),
    "eval_strategy": words("trainer_utils.py", "IntervalStrategy"),
    "save_strategy": words("trainer_utils.py", "SaveStrategy"),
}, sys.stdout, indent=1)
print()
