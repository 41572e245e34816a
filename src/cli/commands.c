#include "cli/commands.h"

#include "cli/bench/bench.h"
#include "report/report.h"

#define BENCH_ROW_LINE(name, title, ...) "  " name ": " title "\n"

const struct command commands[] = {
    {CMD_TRAIN, "", 0, 0, "fine-tune a model on labelled text",
     "Reads a Hugging Face model folder and data, and writes a Hugging Face folder: --output-dir holds the model, the\n"
     "log (log.jsonl) and the checkpoints (step-N). Options have the names of transformers' TrainingArguments.\n",
     "  snug train --model bert-base --train-data train.csv --output-dir out --bf16\n"
     "  snug train --model bert-base --train-data train.csv --eval-data dev.csv \\\n"
     "      --output-dir out --eval-strategy epoch --save-strategy epoch \\\n"
     "      --load-best-model-at-end\n"
     "  snug train --config run.yaml --output-dir out --resume-from-checkpoint auto\n",
     run_train},
    {CMD_EVAL, "", 0, 0, "loss and metrics of a model on labelled data", "",
     "  snug eval --model out --data test.csv\n"
     "  snug eval --model out --data reviews.tsv --text-column review \\\n"
     "      --label-column stars\n"
     "  snug eval --model out --data test.csv --json\n",
     run_eval},
    {CMD_PREDICT, "", 0, 0, "a label and its probabilities, or a text, for each row",
     "Prints CSV, or with --json an object per row, in the order of the data, with the columns of the data behind.\n"
     "Texts are read and answered in constant memory, those of a pipe row by row.\n",
     "  snug predict --model out --text \"where is my card\" --text \"cancel it\"\n"
     "  snug predict --model out --data new.csv --output predictions.csv\n"
     "  snug predict --model out --data - --json --top-k 3 <messages.txt\n",
     run_predict},
    {CMD_GENERATE, "", 0, 0, "text that a causal language model writes",
     "Prints what follows each prompt, as it is written, or with --json an object per prompt. Each token is the "
     "likeliest\n"
     "one unless --do-sample. Rows of --data have a \"prompt\", \"messages\" or \"input_ids\".\n",
     "  snug generate --model out --chat \"where is my card\"\n"
     "  snug generate --model smollm2 --prompt \"Once upon a time\" --do-sample --top-p 0.9\n"
     "  snug generate --model out --data prompts.jsonl --json >answers.jsonl\n",
     run_generate},
    {CMD_PLAN, "", 0, 0, "the memory of a run, to the byte, before anything runs",
     "Takes the options of train. Reads no weights; without --train-data it plans for rows of --max-length.\n",
     "  snug plan --model bert-base --train-data train.csv --batch-size 32\n"
     "  snug plan --model bert-large --max-length 512 --batch-size 8 --bf16\n"
     "  snug plan --model bert-base --train-data train.csv --memory-budget 2GiB\n",
     run_plan},
    {CMD_BENCH, "", 0, 0, "speed and memory of this machine, beside what was planned",
     "Runs the experiments of Hugging Face's guide \"Efficient Training on a Single GPU\", each in a process of its "
     "own,\n"
     "on rows of random tokens, and writes bench.md, bench.json and bench.svg into --output-dir (snug-bench if not\n"
     "given). --model is a folder, or the name of a built-in shape with random weights: bert-large if not given.\n"
     "With --gpus N the table is of one experiment on 1, 2, 4 ... N GPUs, beside what was planned.\n"
     "Rows of the table:\n" BENCH_ROWS(BENCH_ROW_LINE),
     "  snug bench\n"
     "  snug bench --rows bf16,adam8bit --output-dir out\n"
     "  snug bench --gpus 4 --batch-size 32\n"
     "  snug bench --model bert-base --max-length 128 --device cpu\n",
     run_bench},
    {CMD_REPORT, "DIR", 1, 1, "a page of what a run did: curves, evaluations, answers, options",
     "Reads what snug train left in DIR, its --output-dir, and writes DIR/report.html: one file for any browser.\n",
     "  snug report out\n"
     "  snug report out --output page.html\n"
     "  snug report out/ --output /tmp/out.html\n",
     run_report},
    {CMD_COMPARE, "DIR DIR...", 2, REPORT_RUNS, "a page of several runs: curves over each other, options that differ",
     "Reads what snug train left in two to eight folders, and writes compare.html, or the file of --output.\n",
     "  snug compare out-a out-b\n"
     "  snug compare out-*\n"
     "  snug compare out-a out-b out-c --output rates.html\n",
     run_compare},
    {CMD_INFO, "", 0, 0, "what this build and this machine have",
     "Devices, instruction sets, memory and the versions of libraries.\n", "", run_info},
    {CMD_EXPORT, "CHECKPOINT|MODEL", 1, 1, "a model folder of any checkpoint, an ONNX or GGUF model of a folder",
     "CHECKPOINT is a step folder, or the output folder of a run, whose newest good checkpoint it is. --output-dir "
     "becomes\n"
     "what training leaves at its end: config.json, weights and the tokenizer, for snug, transformers or a hub.\n"
     "MODEL is a model folder, or OWNER/NAME for one of the hub: of an encoder with --onnx, which writes model.onnx\n"
     "in place of weights, or with --output FILE.gguf for llama.cpp, then also a GGUF file.\n",
     "  snug export out/step-00000800 --output-dir model-800\n"
     "  snug export out --output-dir newest --bf16\n"
     "  snug export out --output-dir newest --model bert-base --overwrite-output-dir\n"
     "  snug export out --onnx --output-dir out-onnx\n"
     "  snug export out --output model.gguf --outtype q8_0\n",
     run_export},
    {CMD_MERGE, "", 0, 0, "a model with its LoRA adapter added for good",
     "Adds the adapter of --adapter to the weights of --model, in their types, and writes a model folder. With --data "
     "the\n"
     "losses of the model with its adapter and of the result are printed.\n",
     "  snug merge --model bert-base --adapter out --output-dir merged\n"
     "  snug predict --model merged --text \"where is my card\"\n"
     "  snug merge --model bert-base --adapter out --output-dir merged --data test.csv\n",
     run_merge},
    {CMD_INSPECT, "FILE|DIR", 1, 1, "what a safetensors file, a GGUF file or a model folder holds",
     "Metadata, tensors with dtype, shape and size, and what is odd. Headers are checked, tensors are not read.\n",
     "  snug inspect model.safetensors\n"
     "  snug inspect bert-base\n"
     "  snug inspect model.gguf\n"
     "  snug inspect out/step-00000500/rank-0000.safetensors --json\n",
     run_inspect},
    {CMD_TOKENIZE, "FILE|-", 1, 1, "token ids of each line of a text file",
     "Reads lines of UTF-8 from FILE, or from stdin for -, and prints the ids that the model gets for each: numbers\n"
     "with blanks between them, or with --json an object with ids and type_ids.\n",
     "  snug tokenize --model bert-base lines.txt\n"
     "  snug tokenize --model bert-base --max-length 16 --json lines.txt\n"
     "  echo 'a line' | snug tokenize --model bert-base -\n"
     "  echo 101 1037 2240 102 | snug tokenize --model bert-base --decode -\n",
     run_tokenize},
    {CMD_DEBUG_JSON, "FILE", 1, 1, "whether a file is JSON that snug accepts",
     "Prints it in canonical form: one line, keys sorted. What is refused: duplicate keys, invalid UTF-8, numbers out\n"
     "of range, nesting deeper than 128, anything behind the end.\n",
     "", run_debug_json},
    {CMD_DEBUG_DATA, "FILE", 1, 1, "the rows of a data file",
     "Prints each row of a table as an object with text, pair and label; with --model, or for a file of tokens, what\n"
     "training sees of it: rows, tokens, labels. No cache is kept unless --cache-dir is given.\n",
     "", run_debug_data},
    {CMD_DEBUG_GRAD, "MODEL INPUTS OUT", 3, 3, "loss, logits and every gradient of one batch",
     "INPUTS is a safetensors file with input_ids and perhaps attention_mask, token_type_ids and labels; OUT becomes "
     "one\n"
     "with loss, logits and grad.NAME for every weight, in F32. Dropout is off.\n",
     "", run_debug_grad},
    {CMD_DEBUG_OPTIM, "TRAJECTORY OUT", 2, 2, "an optimizer's updates from given gradients",
     "TRAJECTORY is a safetensors file with param.I.0 and grad.I.T; OUT becomes one with param.I.T for T = 0, 1, ...;\n"
     "weight decay acts on every tensor.\n",
     "", run_debug_optim},
    {CMD_DEBUG_DOCS, "options|trainer|ops|man|completion", 1, 1, "documentation generated from the tables",
     "Markdown for docs/options.md or docs/ops.md, a manual page, or completion for bash.\n", "", run_debug_docs},
};
const size_t n_commands = sizeof commands / sizeof *commands;

/* ORDER snug_code */
const struct exit_code exit_codes[] = {
    {"0", "done"},
    {"2", "usage: a command, an option, its value, an environment variable"},
    {"3", "a bad input file: model, tokenizer, data"},
    {"4", "environment, device or memory: no GPU, a limit, not enough memory"},
    {"5", "input and output: disk full, permission, read or write error, lock held"},
    {"6", "checkpoint unusable, or state of the device lost"},
    {"7", "loss or gradient not finite, and --nan-policy says stop"},
    {"8", "another process of the run failed"},
    {"75", "stopped by a signal; training that had begun is saved: go on with --resume-from-checkpoint auto"},
    {"128+n", "stopped by a second signal n; the last good checkpoint stands"},
};
const size_t n_exit_codes = sizeof exit_codes / sizeof *exit_codes;
