"""Trains an encoder-decoder of random weights on rows of random tokens with Hugging Face Trainer in bf16, and prints one JSON line: rows_per_s, over
the last two thirds of the steps, and what is in use on the whole device at the end, MB of 2^20 bytes.

    hf_seq2seq.py MODEL     MODEL: a folder with a config.json. Sources have 512 tokens, targets 128; 16 rows a step, 30 steps

Beside it: snug train --model MODEL --init-from-config --task seq2seq-lm --bf16 --train-data synthetic:480x512 --batch-size 16 --max-steps 30
--logging-steps 5 --save-strategy no --discard-model
"""
import json
import sys
import time

import torch
import transformers as T

SOURCE, TARGET, BATCH, STEPS = 512, 128, 16, 30
config = T.AutoConfig.from_pretrained(sys.argv[1])
model = T.AutoModelForSeq2SeqLM.from_config(config)
g = torch.Generator().manual_seed(1)
draw = lambda n: torch.randint(5, config.vocab_size - 300, (BATCH * STEPS, n), generator=g)
sources, targets = draw(SOURCE), draw(TARGET)
rows = [dict(input_ids=s, attention_mask=torch.ones_like(s), labels=t) for s, t in zip(sources, targets)]
ends = []


class Clock(T.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        torch.cuda.synchronize()
        ends.append(time.perf_counter())


args = T.TrainingArguments(output_dir="/tmp/hf_seq2seq", per_device_train_batch_size=BATCH, max_steps=STEPS, bf16=True, report_to=[],
                           save_strategy="no", logging_strategy="no", dataloader_num_workers=2, optim="adamw_torch_fused")
T.Trainer(model, args, train_dataset=rows, callbacks=[Clock()]).train()
first = len(ends) // 3
free, total = torch.cuda.mem_get_info()
print(json.dumps({"rows_per_s": BATCH * (len(ends) - 1 - first) / (ends[-1] - ends[first]), "memory_mb": (total - free) >> 20}))
