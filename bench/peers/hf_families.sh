#!/usr/bin/env bash
# Trains models of MiniLM's size, one of each family, on labelled text with Hugging Face Trainer and with snug, in turn, from the same random
# weights. Encoders learn the label; encoder-decoders learn to write it.
# usage: bench/peers/hf_families.sh [fp32|bf16 [FAMILY…]]      fp32 and all families if not given
#        ROWS=N EVAL_ROWS=N PAIRS=N bench/peers/hf_families.sh …      640, 400 and 1 if not given
#        TRAIN=FILE TEST=FILE bench/peers/hf_families.sh …      rows of these instead of the demo's data
#        PYTHON=COMMAND bench/peers/hf_families.sh …      a Python with torch, transformers and accelerate, instead of .venv's
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

precision=${1:-fp32}
families=("${@:2}")
[ ${#families[@]} -gt 0 ] ||
    families=(bert distilbert roberta xlm-roberta electra albert mpnet modernbert deberta-v3 t5 bart)
rows=${ROWS:-640}
eval_rows=${EVAL_ROWS:-400}
work=.cache/families

scripts/setup
scripts/build
if [ -z "${PYTHON:-}" ]; then
    bench/peers/setup
    PYTHON=.venv/bin/python
fi
tokenizer=$(scripts/demo-model)
if [ -n "${TRAIN:-}" ]; then
    train=$(absolute "$TRAIN")
    test=$(absolute "${TEST:?TEST=FILE goes with TRAIN=FILE}")
else
    train=.cache/demo/train.csv
    test=.cache/demo/test.csv
    scripts/demo-data "$PWD/.cache/demo"
fi
mkdir -p $work
$PYTHON bench/peers/sample_rows.py "$train" "$test" "$rows" "$eval_rows" $work
target=$(head -n 1 $work/train.csv | tr -d '\r' | cut -d, -f2)

for family in "${families[@]}"; do
    [ -e "$work/$family/model.safetensors" ] ||
        $PYTHON bench/peers/random_families.py "$tokenizer" $work "$family" >/dev/null
    case $family in
    t5 | bart) writes=--writes columns="--text-column text --target-column $target" ;;
    *) writes="" columns="" ;;
    esac
    echo "$family, $precision"
    $PYTHON bench/peers/side_by_side.py --pairs "${PAIRS:-1}" --names peer snug \
        "$PYTHON bench/peers/hf_text.py $work/$family $work/train.csv $work/test.csv --epochs 1 --precision $precision $writes" \
        "$PYTHON bench/peers/snug_run.py --rows $rows --epochs 1 --eval-rows $eval_rows --
            --model $work/$family --train-data $work/train.csv --eval-data $work/test.csv $columns --num-train-epochs 1
            --dtype $precision --learning-rate 2e-4 --warmup-steps 0.1 --weight-decay 0.01
            --per-device-train-batch-size 32 --per-device-eval-batch-size 64 --max-length 128 --eval-strategy epoch
            --save-strategy no --logging-steps 1 --seed 1"
done
