#!/usr/bin/env bash
# Fine-tunes the same model on the same labelled text with Hugging Face Trainer and with snug, in turn, and prints the ratios.
# usage: bench/peers/hf_text.sh [fp32|bf16 [EPOCHS [PAIRS]]]      fp32, 3 epochs and 3 pairs if not given
#        MODEL=FOLDER TRAIN=FILE TEST=FILE bench/peers/hf_text.sh …      instead of the demo's model and data
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

precision=${1:-fp32}
epochs=${2:-3}
pairs=${3:-3}
[ -z "${MODEL:-}" ] || MODEL=$(absolute "$MODEL")
export MODEL
scripts/setup
scripts/build
bench/peers/setup
model=$(scripts/demo-model)
if [ -n "${TRAIN:-}" ]; then
    train=$(absolute "$TRAIN")
    test=$(absolute "${TEST:?TEST=FILE goes with TRAIN=FILE}")
else
    train=.cache/demo/train.csv
    test=.cache/demo/test.csv
    scripts/demo-data "$PWD/.cache/demo"
fi
csv_rows() {
    .venv/bin/python -c 'import csv, sys; print(sum(1 for _ in csv.reader(open(sys.argv[1], newline=""))) - 1)' "$1"
}

.venv/bin/python bench/peers/side_by_side.py --pairs "$pairs" --names peer snug \
    ".venv/bin/python bench/peers/hf_text.py $model $train $test --epochs $epochs --precision $precision" \
    ".venv/bin/python bench/peers/snug_run.py --rows $(csv_rows "$train") --epochs $epochs --eval-rows $(csv_rows "$test") --
        --model $model --train-data $train --eval-data $test --num-train-epochs $epochs --dtype $precision
        --learning-rate 2e-4 --warmup-steps 0.1 --weight-decay 0.01 --per-device-train-batch-size 32
        --per-device-eval-batch-size 64 --max-length 128 --eval-strategy epoch --save-strategy no --logging-steps 1 --seed 1"
