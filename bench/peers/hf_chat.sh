#!/usr/bin/env bash
# Trains SmolLM2-135M-Instruct on conversations with Hugging Face Trainer (and PEFT) and with snug: the same rows in the same order, the
# same initial weights, the same recipe. Prints the mean loss of every ten steps and the loss on held-out rows, and by how much they differ.
# usage: bench/peers/hf_chat.sh [lora|full [STEPS [SEED…]]]      lora, 200 steps, seeds 1 2 3 if not given
# A seed draws the order of the rows, and the adapter's A.
#        BATCH=ROWS bench/peers/hf_chat.sh …      rows of a step, 8 if not given
#        DEVICE=cuda bench/peers/hf_chat.sh …     both on the GPU; the CPU if not given
#        PYTHON=COMMAND bench/peers/hf_chat.sh …      a Python with torch, transformers, accelerate and peft, instead of .venv's
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

what=${1:-lora}
steps=${2:-200}
seeds=("${@:3}")
[ ${#seeds[@]} -gt 0 ] || seeds=(1 2 3)
batch=${BATCH:-8}
device=${DEVICE:-cpu}
rows=64 # held out
data=.cache/demo
work=.cache/hf-chat
case $what in
lora) rate=1e-3 ;;
full) rate=2e-5 ;;
*) die "$what: is neither lora nor full" ;;
esac

scripts/setup
scripts/build
if [ -z "${PYTHON:-}" ]; then
    bench/peers/setup
    PYTHON=.venv/bin/python
fi
gguf=$(scripts/demo-smollm2)
scripts/demo-data "$PWD/$data"
mkdir -p $work
head -n $rows $data/test.jsonl >$work/test.jsonl
chat=(--device "$device" --assistant-only-loss --per-device-train-batch-size "$batch" --save-strategy no
    --overwrite-output-dir)

# The folder of the model, with weights in fp32; and an adapter to begin with, in which B is zero.
model=$work/model
[ -f $model/model.safetensors ] ||
    quietly build/snug train --model "$gguf" --train-data $work/test.jsonl "${chat[@]}" --output-dir $model --learning-rate 0 \
        --max-steps 1
for seed in "${seeds[@]}"; do
    shuf --random-source=<(yes "$seed") -n $((steps * batch)) $data/train.jsonl >$work/train.jsonl
    begin=()
    if [ "$what" = lora ]; then
        begin=(--adapter $work/begin-$seed)
        quietly build/snug train --model $model --train-data $work/train.jsonl "${chat[@]}" --output-dir $work/begin-$seed \
            --learning-rate 0 --max-steps 1 --use-peft --lora-dropout 0 --seed "$seed"
    fi
    echo "== $what, $steps steps of $batch rows, seed $seed"
    $PYTHON bench/peers/hf_chat.py $model $work/train.jsonl $work/test.jsonl "${begin[@]}" --learning-rate $rate --steps "$steps" \
        --batch "$batch" --device "$device" >$work/peer.jsonl
    quietly build/snug train --model $model "${begin[@]}" --train-data $work/train.jsonl "${chat[@]}" --eval-data $work/test.jsonl \
        --output-dir $work/out --learning-rate $rate --warmup-steps $((steps / 10)) --max-steps "$steps" --logging-steps 1 \
        --train-sampling-strategy sequential
    $PYTHON - $work/peer.jsonl $work/out/log.jsonl <<'EOF'
import json, sys
peer, snug = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
losses = [[line["loss"] for line in log if "loss" in line] for log in (peer, snug)]
print("steps        peer      snug      off by")
def row(name, a, b):
    print(f"{name:10s} {a:8.5f}  {b:8.5f}  {100 * (b - a) / a:+.3f} %")
for i in range(0, len(losses[0]), 10):
    a, b = (sum(l[i:i + 10]) / len(l[i:i + 10]) for l in losses)
    row(f"{i + 1}-{min(i + 10, len(losses[0]))}", a, b)
row("held out", *(next(line["eval_loss"] for line in reversed(log) if "eval_loss" in line) for log in (peer, snug)))
EOF
done
