#!/usr/bin/env bash
# Trains BERT-large (random weights) on rows of 512 random tokens with Hugging Face Trainer and with snug, in turn, on the
# CPU, and prints the ratios.
# usage: bench/peers/hf_cpu.sh [fp32|bf16 [BATCH [STEPS [PAIRS]]]]      fp32, 4, 6 and 2 if not given; 16 GB of memory
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

precision=${1:-fp32}
batch=${2:-4}
rows=$((batch * ${3:-6}))
pairs=${4:-2}
model=bench/models/bert-large
scripts/setup
scripts/build
bench/peers/setup

.venv/bin/python bench/peers/side_by_side.py --pairs "$pairs" --names peer snug \
    ".venv/bin/python bench/peers/hf_train.py $model --rows $rows --length 512 --batch $batch --precision $precision" \
    ".venv/bin/python bench/peers/snug_run.py --batch $batch --
        --model $model --init-from-config --train-data synthetic:${rows}x512 --num-train-epochs 1 --dtype $precision
        --per-device-train-batch-size $batch --save-strategy no --logging-steps 1"
