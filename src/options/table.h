/* table.h: every option, once. A row makes the member of struct options, the command line, the line of --help,
 * the key of --config files, the entry of docs/options.md and the key of the JSON that a checkpoint records.
 *
 * This file is included several times, each time with other meanings of its macros; what an includer does not define
 * is left out. No include guard, therefore.
 *
 *   OPT(type, name, default, domain, commands, flags, help)
 *       type      BOOL INT UINT REAL STEPS BYTES CHAR STR PATHS TEXTS WORD KWARGS, see options.h
 *       default   as it would be typed; "none" is unset
 *       domain    numbers: an interval; STR and CHAR: what --help calls the value; WORD: a list of options.h
 *       commands  that take it; NEED(command) as well: it must be given there
 *       flags     RESULT: results depend on it, so a checkpoint compares it. What is decided by model, tokenizer or
 *                 data is compared there, through their hashes
 *   OPT_SUB(parent, type, name, ...)   a key of a KWARGS option; the member is parent_name
 *   OPT_SECTION(id, title)             starts a section of --help
 *   OPT_SPELLING(kind, spelling, option, value)
 *       another way to give an option. kind: SHORT is as good, HABIT is what other programs call it and --help does not
 *       mention, OLDER gets a note, RATIO gets a note and yields to an option that is not 0. A value other than NULL: the
 *       spelling is a flag, and true gives the option this value
 *   OPT_VALUE(option, spelling, value, note)   another word for a value; note may be NULL
 *   OPT_LACKING(option, words, why)            words that are known and refused by name; a why with "; " says what to use, and
 *                                              is not followed by the list of what there is
 *   OPT_NEEDS(option, other, values)           no effect unless the other has one of the values ("*": is given)
 *   OPT_SERVES(option, other, values)          has an effect with these values of the other ("*": where it is given), whatever
 *                                              it needs besides
 *   OPT_USUAL(option, commands)                --help of these commands shows it, in the order of these rows: ten for a
 *                                              command. One without such rows shows all of its options
 *   OPT_EITHER(option, other)                  serves the same: what needs `option` ("*") is content with `other`, and both
 *                                              exclude each other
 *   OPT_ENV(variable, option)                  the environment's way to give it
 *   OPT_HINT(name, commands, what)             what people type, and these commands have no option of: what to do instead
 *   OPT_ACCEPTED(name, off, why)    of TrainingArguments; read and ignored. off: the JSON value that means nothing
 *   OPT_REFUSED(name, off, why)     of TrainingArguments; refused, saying why, unless a --config file has the off value
 */
#ifndef OPT
#define OPT(...)
#endif
#ifndef OPT_SUB
#define OPT_SUB(...)
#endif
#ifndef OPT_SECTION
#define OPT_SECTION(...)
#endif
#ifndef OPT_SPELLING
#define OPT_SPELLING(...)
#endif
#ifndef OPT_VALUE
#define OPT_VALUE(...)
#endif
#ifndef OPT_LACKING
#define OPT_LACKING(...)
#endif
#ifndef OPT_NEEDS
#define OPT_NEEDS(...)
#endif
#ifndef OPT_SERVES
#define OPT_SERVES(...)
#endif
#ifndef OPT_USUAL
#define OPT_USUAL(...)
#endif
#ifndef OPT_HINT
#define OPT_HINT(...)
#endif
#ifndef OPT_EITHER
#define OPT_EITHER(...)
#endif
#ifndef OPT_ENV
#define OPT_ENV(...)
#endif
#ifndef OPT_ACCEPTED
#define OPT_ACCEPTED(...)
#endif
#ifndef OPT_REFUSED
#define OPT_REFUSED(...)
#endif

/* clang-format off */

OPT_SECTION(model, "Model")
OPT(STR, model, "none", "DIR", MODEL | BENCH | TOKENIZE | EXPORT | DEBUG_DATA | MERGE | NEED(MODEL | MERGE | TOKENIZE), 0,
    "Hugging Face model folder, or a GGUF file, or OWNER/NAME[@REVISION] for a model of the hub")
OPT(BOOL, init_from_config, "false", "", MODEL, RESULT, "a folder without weights is no error: start from random ones")
OPT(WORD, task, "auto", TASK, DATA | MERGE, 0, "what is learned; auto: labels if the data have some, else what config.json's architectures say")
OPT(WORD, problem_type, "auto", PROBLEM, TRAINING | DEBUG_DATA, RESULT,
    "loss of sequence classification; auto: config.json's, else from the labels")
OPT(INT, num_labels, "none", "[1, 100000]", TRAINING | DEBUG_DATA, RESULT, "outputs of a new head; none: from the data")
OPT(REAL, hidden_dropout_prob, "none", "[0, 1)", TRAINING, RESULT, "instead of config.json's")
OPT(REAL, attention_probs_dropout_prob, "none", "[0, 1)", TRAINING, RESULT, "instead of config.json's")
OPT(REAL, classifier_dropout, "none", "[0, 1)", TRAINING, RESULT, "instead of config.json's")
OPT(BOOL, ignore_mismatched_sizes, "false", "", TRAINING, RESULT,
    "a trained head that other labels than the data's belong to is replaced by a new one")
OPT(BOOL, allow_new_head, "false", "", EVAL | PREDICT | GENERATE, 0, "a head that was never trained is random, and no error")
OPT(BOOL, strict, "false", "", MODEL, 0, "a tensor that the model does not know is an error")
OPT(BOOL, check_finite, "false", "", MODEL, 0, "NaN or infinity in the weights is an error")

OPT_SECTION(data, "Data")
OPT(PATHS, train_data, "none", "FILE", TRAINING | NEED(TRAIN), 0,
    "rows: .csv, .tsv, .jsonl, .parquet, .txt, .safetensors, OWNER/NAME, synthetic:ROWSxLENGTH")
OPT(PATHS, eval_data, "none", "FILE", TRAINING, 0, "rows to evaluate on, at the end and as --eval-strategy says")
OPT(REAL, eval_split, "none", "(0, 1)", TRAINING, RESULT,
    "share of the training rows that is held out to evaluate on, the same of each label")
OPT(STR, data, "none", "FILE", EVAL | PREDICT | GENERATE | MERGE | NEED(EVAL | PREDICT | GENERATE), 0,
    "rows to evaluate, to predict or to generate from; predict reads the standard input for -")
OPT(WORD, data_format, "auto", FORMAT, PREDICT, 0, "of --data; auto: as its ending says, of the standard input as its first line shows")
OPT(TEXTS, text, "none", "TEXT", PREDICT, 0, "a text to predict, instead of --data; may be given again")
OPT(TEXTS, text_pair, "none", "TEXT", PREDICT, 0, "second text of a pair, one for each --text")
OPT(TEXTS, prompt, "none", "TEXT", GENERATE, 0, "a text that the model goes on with, instead of --data; may be given again")
OPT(TEXTS, chat, "none", "TEXT", GENERATE, 0, "a user's message that the model answers, by its chat template, instead of --data; may be given again")
OPT(STR, text_column, "none", "NAME", DATA | MERGE, 0, "column of the text, or of the words; none: text, sentence, tokens, or another usual name")
OPT(STR, text_pair_column, "none", "NAME", DATA | MERGE, 0, "column of the second text of a pair")
OPT(STR, label_column, "none", "NAME", DATA | MERGE, 0,
    "column of the label; none: label, category, or another usual name; A,B,C: one for each label")
OPT(STR, target_column, "none", "NAME", TRAINING | EVAL | DEBUG_DATA, 0,
    "column of the text to be written, seq2seq-lm; none: target, summary, or another usual name")
OPT(STR, source_prefix, "none", "TEXT", TRAINING | EVAL | PREDICT | DEBUG_DATA, RESULT,
    "stands before each source, seq2seq-lm, such as \"summarize: \"")
OPT(STR, source_lang, "none", "LANGUAGE", TRAINING | EVAL | PREDICT | GENERATE, RESULT,
    "of the sources, as a translator's tokenizer names it: en_XX; none: what tokenizer_config.json says")
OPT(STR, target_lang, "none", "LANGUAGE", TRAINING | EVAL | PREDICT | GENERATE, RESULT,
    "of the targets, likewise; generated texts begin with it")
OPT(INT, max_target_length, "none", "[1, 1048576]", TRAINING | EVAL | DEBUG_DATA, RESULT,
    "tokens of a target, seq2seq-lm; longer ones are cut; none: --max-length")
OPT(STR, ignore_label, "none", "LABEL", TRAINING | EVAL | DEBUG_DATA | MERGE, RESULT, "rows with this label are left out, such as -1")
OPT(CHAR, delimiter, "none", "CHAR", DATA | MERGE, 0, "between the fields of a row; none: comma, and tab for .tsv")
OPT(INT, max_length, "none", "[1, 1048576]", DATA | BENCH | TOKENIZE | MERGE, 0,
    "tokens of a row, longer ones are cut; none: what the model can take")
OPT(BOOL, decode, "false", "", TOKENIZE, 0, "the other way: each line holds token ids, and their text is printed")
OPT(WORD, utf8, "error", UTF8, TOKENIZE, 0, "invalid UTF-8 in a text: an error, or replaced by U+FFFD")
OPT(WORD, empty, "keep", EMPTY, DATA, 0, "empty texts: kept and counted, or an error")
OPT(REAL, mlm_probability, "0.15", "(0, 1)", TRAINING | EVAL, RESULT, "share of the tokens to be predicted, masked-lm")
OPT(STR, chat_template, "none", "FILE", TRAINING | EVAL | GENERATE | MERGE, 0, "template of conversations, in Jinja, instead of the model folder's")
OPT(BOOL, assistant_only_loss, "false", "", TRAINING | EVAL | MERGE, RESULT, "of conversations, learn only what the assistant says")
OPT(BOOL, completion_only_loss, "true", "", TRAINING | EVAL | MERGE, RESULT, "of prompts with completions, learn only the completions")
OPT(INT, doc_stride, "none", "[0, 1048576]", TRAINING | EVAL | PREDICT | DEBUG_DATA | MERGE, RESULT,
    "of questions, tokens that two windows over a context share; none: 128, or half a short window")
OPT(INT, max_answer_length, "30", "[1, 1048576]", TRAINING | EVAL | PREDICT, 0, "of questions, tokens of an answer")
OPT(BOOL, version_2_with_negative, "false", "", TRAINING | EVAL | PREDICT, 0,
    "a question may have no answer, as in SQuAD 2; so it is where the data to evaluate on have such")
OPT(REAL, null_score_diff_threshold, "0", "[-1000000, 1000000]", TRAINING | EVAL | PREDICT, 0,
    "there is no answer where that scores so much more than the best one")
OPT(INT, block_size, "none", "[2, 1048576]", TRAINING | EVAL | MERGE, RESULT,
    "texts are joined and cut into rows of so many tokens, causal-lm; none: a text is a row")
OPT(BOOL, show_sample, "false", "", TRAINING, 0, "show the tokens of the first row, and which are learned, causal-lm")
OPT(STR, cache_dir, "none", "DIR", DATA | DEBUG_GRAD | MERGE, 0, "folder for tokens and for what was measured of a GPU; none: $XDG_CACHE_HOME/snug, ~/.cache/snug")
OPT(BYTES, in_memory_max_size, "64MiB", "[1, inf)", DATA | MERGE, 0, "token ids of more than this lie in the mapped file of the cache, not in memory")

OPT_SECTION(training, "Training")
OPT(STR, output_dir, "none", "DIR", TRAINING | BENCH | EXPORT | MERGE | NEED(TRAIN | MERGE | EXPORT), 0, "where checkpoints, logs and the model go")
OPT(BOOL, overwrite_output_dir, "false", "", TRAINING | EXPORT | MERGE, 0, "another run's checkpoints in the output folder are deleted; its model stays until the new one is there")
OPT(REAL, num_train_epochs, "3.0", "(0, 1000000]", TRAINING, 0, "passes over the data")
OPT(INT, max_steps, "-1", "[-1, 1000000000]", TRAINING, 0, "optimizer steps, instead of epochs; -1: epochs")
OPT(INT, per_device_train_batch_size, "8", "[1, 1000000]", TRAINING, RESULT, "rows of a micro-batch")
OPT(INT, gradient_accumulation_steps, "1", "[1, 1000000]", TRAINING, RESULT, "micro-batches of an optimizer step")
OPT(INT, max_tokens_per_batch, "none", "[1, 2147483647]", TRAINING, RESULT,
    "most tokens of a micro-batch: one with more is cut into several; none: no limit")
OPT(BOOL, dataloader_drop_last, "false", "", TRAINING, RESULT, "leave out the last batch of an epoch, of all ranks, where it is smaller")
OPT(WORD, train_sampling_strategy, "random", SAMPLING, TRAINING, RESULT, "order of the rows in an epoch")
OPT(STR, freeze, "none", "PATTERN,...", TRAINING, RESULT,
    "weights that are not trained, by name, such as bert.embeddings.*,bert.encoder.layer.[0-5].*")
OPT(REAL, label_smoothing_factor, "0.0", "[0, 1)", TRAINING, RESULT, "share of a target spread over all classes")
OPT(STR, class_weights, "none", "balanced|FILE", TRAINING, 0,
    "of classes in the loss: balanced by their rows, or as in a JSON file {label: weight}")
OPT(WORD, nan_policy, "stop", NAN_POLICY, TRAINING, RESULT, "loss or gradient not finite: stop, or skip the update")
OPT(UINT, seed, "42", "", DATA | GENERATE, RESULT, "of everything random")
OPT(UINT, data_seed, "none", "", TRAINING, RESULT, "of the order of the rows; none: --seed")

OPT_SECTION(adapter, "Adapters")
OPT(BOOL, use_peft, "false", "", TRAINING, RESULT, "train a LoRA adapter instead of the model; the result is PEFT's folder")
OPT(STR, adapter, "none", "DIR", MODEL | MERGE | DEBUG_GRAD | NEED(MERGE), 0, "a LoRA adapter that the model gets: PEFT's folder, or snug's; train goes on with it")
OPT(INT, lora_r, "16", "[1, 65536]", TRAINING, RESULT, "rank of the adapter's matrices")
OPT(REAL, lora_alpha, "32", "[0, 1000000]", TRAINING, RESULT, "the adapter counts alpha / r")
OPT(REAL, lora_dropout, "0.05", "[0, 1)", TRAINING, RESULT, "of what the adapter reads")
OPT(STR, target_modules, "none", "NAME,...", TRAINING, RESULT,
    "layers that get one: ends of names, all-linear or a pattern; none: as PEFT")
OPT(STR, target_parameters, "none", "NAME,...", TRAINING, RESULT,
    "of experts: mlp.experts.gate_up_proj,mlp.experts.down_proj")
OPT(STR, modules_to_save, "none", "NAME,...", TRAINING, RESULT,
    "modules trained in full beside it; a classifier's head always is")
OPT(BOOL, use_rslora, "false", "", TRAINING, RESULT, "the adapter counts alpha / sqrt(r)")
OPT(BOOL, use_dora, "false", "", TRAINING, RESULT, "the adapter trains the lengths of the weights' rows, too (DoRA)")
OPT(BOOL, load_in_4bit, "false", "", MODEL | DEBUG_GRAD, RESULT,
    "the weights of linear layers, which an adapter leaves as they are, are kept in 4 bits (QLoRA)")
OPT(BOOL, load_in_8bit, "false", "", MODEL | DEBUG_GRAD, RESULT, "they are kept in 8 bits: floats (E4M3) with a scale for each row")
OPT(WORD, bnb_4bit_quant_type, "nf4", QUANT_TYPE, MODEL | DEBUG_GRAD, RESULT, "what the 16 codes stand for")
OPT(BOOL, use_bnb_nested_quant, "false", "", MODEL | DEBUG_GRAD, RESULT, "the largest of each 64 weights, which codes are multiplied with, is kept in 8 bits")

OPT_SECTION(optimizer, "Optimizer")
OPT(WORD, optim, "adamw_torch", OPTIM, TRAINING | DEBUG_OPTIM, RESULT, "the optimizer; docs/optimizers.md compares them")
OPT(KWARGS, optim_args, "none", "KEY=VALUE,...", TRAINING | DEBUG_OPTIM, 0, "what the optimizer takes besides, as KEY=VALUE,... or JSON")
OPT_SUB(optim_args, REAL, momentum, "none", "[0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "of sgd, rmsprop (none: 0), muon (0.95), schedule_free_sgd (0.9)")
OPT_SUB(optim_args, REAL, dampening, "0", "[0, 1]", TRAINING | DEBUG_OPTIM, RESULT, "of sgd")
OPT_SUB(optim_args, BOOL, nesterov, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of sgd: with momentum and without dampening")
OPT_SUB(optim_args, REAL, eps1, "1e-30", "[0, 1]", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: added to squares of gradients")
OPT_SUB(optim_args, REAL, eps2, "1e-3", "[0, 1]", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: the least size of a weight, for scale_parameter")
OPT_SUB(optim_args, REAL, clip_threshold, "1", "(0, 1000000]", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: root mean square of a tensor's update that is cut")
OPT_SUB(optim_args, REAL, decay_rate, "-0.8", "[-10, 0)", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: beta2 is 1 - t^decay_rate")
OPT_SUB(optim_args, REAL, beta1, "none", "[0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: decay of a first moment; none: there is none; of ademamix: --adam-beta1")
OPT_SUB(optim_args, REAL, beta2, "none", "[0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "of ademamix: --adam-beta2")
OPT_SUB(optim_args, BOOL, scale_parameter, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: the rate times the size of the tensor")
OPT_SUB(optim_args, BOOL, relative_step, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: its own schedule, min(1e-2, 1/sqrt(t))")
OPT_SUB(optim_args, BOOL, warmup_init, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of adafactor: relative_step from 1e-6 t on")
OPT_SUB(optim_args, REAL, eps, "none", "(0, 1]", TRAINING | DEBUG_OPTIM, RESULT, "of rmsprop (none: 1e-8), adagrad (1e-10), ademamix (--adam-epsilon), muon (1e-7)")
OPT_SUB(optim_args, REAL, alpha, "none", "[0, 1000000]", TRAINING | DEBUG_OPTIM, RESULT, "of rmsprop: decay of the second moment (none: 0.99); of ademamix: share of the slow moment (5)")
OPT_SUB(optim_args, BOOL, centered, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of rmsprop: the second moment less the square of the first")
OPT_SUB(optim_args, REAL, lr_decay, "0", "[0, 1000]", TRAINING | DEBUG_OPTIM, RESULT, "of adagrad: the rate over 1 + (t-1) lr_decay")
OPT_SUB(optim_args, REAL, beta3, "0.9999", "(0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "of ademamix: decay of the slow moment")
OPT_SUB(optim_args, INT, t_alpha, "none", "[1, 1000000000]", TRAINING | DEBUG_OPTIM, RESULT, "of ademamix: steps in which alpha grows to its value")
OPT_SUB(optim_args, INT, t_beta3, "none", "[1, 1000000000]", TRAINING | DEBUG_OPTIM, RESULT, "of ademamix: steps in which beta3 grows from beta1 to its value")
OPT_SUB(optim_args, INT, ns_steps, "5", "[1, 99]", TRAINING | DEBUG_OPTIM, RESULT, "of muon: iterations that bring singular values near 1")
OPT_SUB(optim_args, WORD, adjust_lr_fn, "match_rms_adamw", MUON_RATE, TRAINING | DEBUG_OPTIM, RESULT, "of muon: the rate of a matrix, for steps of AdamW's size or as in torch")
OPT_SUB(optim_args, REAL, r, "0", "[0, 100]", TRAINING | DEBUG_OPTIM, RESULT, "of schedule_free_*: step t weighs t^r in the average")
OPT_SUB(optim_args, REAL, weight_lr_power, "2", "[0, 100]", TRAINING | DEBUG_OPTIM, RESULT, "of schedule_free_*: a step weighs the highest rate so far to this power")
OPT_SUB(optim_args, INT, min_8bit_size, "4096", "[1, 1000000000]", TRAINING | DEBUG_OPTIM, RESULT, "of optimizers with 8-bit states: smaller tensors have 32-bit states")
OPT_SUB(optim_args, BOOL, embeddings_8bit, "false", "", TRAINING | DEBUG_OPTIM, RESULT, "of optimizers with 8-bit states: embeddings have them too")
OPT(REAL, learning_rate, "5e-5", "[0, 1000]", TRAINING | DEBUG_OPTIM, RESULT, "the highest of the schedule")
OPT(BOOL, lr_find, "false", "", TRAIN, 0,
    "no model, but a rate to train with: 100 steps with rates from 1e-8 to 1")
OPT(WORD, lr_scheduler_type, "linear", SCHEDULE, TRAINING, RESULT, "how the learning rate falls after the warm-up")
OPT(KWARGS, lr_scheduler_kwargs, "none", "JSON", TRAINING, 0, "what the schedule takes besides, as JSON or KEY=VALUE,...")
OPT_SUB(lr_scheduler_kwargs, REAL, num_cycles, "0.5", "(0, 1000]", TRAINING, RESULT, "cosines: waves, 0.5 falls once; cosine_with_restarts: falls, 1")
OPT_SUB(lr_scheduler_kwargs, REAL, power, "1", "(0, 1000]", TRAINING, RESULT, "polynomial: exponent")
OPT_SUB(lr_scheduler_kwargs, REAL, lr_end, "1e-7", "[0, 1000]", TRAINING, RESULT, "polynomial: the last rate")
OPT_SUB(lr_scheduler_kwargs, INT, timescale, "none", "[1, 1000000000]", TRAINING, RESULT, "inverse_sqrt: steps; none: those of the warm-up, or 10000")
OPT_SUB(lr_scheduler_kwargs, REAL, min_lr, "none", "[0, 1000]", TRAINING, RESULT, "the lowest rate, of the schedules that have one")
OPT_SUB(lr_scheduler_kwargs, REAL, min_lr_rate, "none", "[0, 1]", TRAINING, RESULT, "the same as a share of --learning-rate")
OPT_SUB(lr_scheduler_kwargs, REAL, warmup_lr_rate, "none", "[0, 1]", TRAINING, RESULT, "cosine_warmup_with_min_lr: share of the rate to begin with")
OPT_SUB(lr_scheduler_kwargs, INT, num_decay_steps, "none", "[0, 1000000000]", TRAINING, RESULT, "warmup_stable_decay: steps in which the rate falls")
OPT_SUB(lr_scheduler_kwargs, INT, num_stable_steps, "none", "[0, 1000000000]", TRAINING, RESULT, "warmup_stable_decay: steps at the highest rate; none: the rest")
OPT_SUB(lr_scheduler_kwargs, WORD, warmup_type, "linear", RAMP, TRAINING, RESULT, "warmup_stable_decay: how the rate grows")
OPT_SUB(lr_scheduler_kwargs, WORD, decay_type, "cosine", RAMP, TRAINING, RESULT, "warmup_stable_decay: how it falls")
OPT_SUB(lr_scheduler_kwargs, REAL, min_lr_ratio, "0", "[0, 1]", TRAINING, RESULT, "warmup_stable_decay: the lowest rate as a share of --learning-rate")
OPT_SUB(lr_scheduler_kwargs, WORD, mode, "min", MODE, TRAINING, RESULT, "reduce_lr_on_plateau, greedy: less or more is better")
OPT_SUB(lr_scheduler_kwargs, REAL, factor, "0.1", "(0, 1)", TRAINING, RESULT, "reduce_lr_on_plateau: the rate falls to this share of itself; greedy: 0.95")
OPT_SUB(lr_scheduler_kwargs, INT, patience, "10", "[0, 1000000000]", TRAINING, RESULT, "reduce_lr_on_plateau, greedy: evaluations in a row that change nothing")
OPT_SUB(lr_scheduler_kwargs, REAL, threshold, "1e-4", "[0, 1000000000]", TRAINING, RESULT, "reduce_lr_on_plateau: a metric must be better by more than this; greedy: 1e-6")
OPT_SUB(lr_scheduler_kwargs, WORD, threshold_mode, "rel", THRESHOLD, TRAINING, RESULT, "the threshold is a share of the best metric, or a difference; greedy: abs")
OPT_SUB(lr_scheduler_kwargs, INT, cooldown, "0", "[0, 1000000000]", TRAINING, RESULT, "reduce_lr_on_plateau, greedy: evaluations that do not count after the rate fell")
OPT_SUB(lr_scheduler_kwargs, REAL, eps, "1e-8", "[0, 1]", TRAINING, RESULT, "reduce_lr_on_plateau, greedy: smaller changes of the rate are not made")
OPT_SUB(lr_scheduler_kwargs, INT, warmup, "0", "[0, 1000000000]", TRAINING, RESULT, "greedy: evaluations that do not count after the rate rose")
OPT_SUB(lr_scheduler_kwargs, REAL, max_lr, "1", "(0, 1000]", TRAINING, RESULT, "greedy: the highest rate")
OPT_SUB(lr_scheduler_kwargs, INT, reset_start, "500", "[0, 1000000000]", TRAINING, RESULT, "greedy: falls at the lowest rate until it starts anew")
OPT(STEPS, warmup_steps, "0", "[0, inf)", TRAINING | DEBUG_OPTIM, RESULT, "steps of growing learning rate; below 1: share of all steps")
OPT(REAL, weight_decay, "0.0", "[0, 1000]", TRAINING | DEBUG_OPTIM, RESULT, "not of biases and norms")
OPT(REAL, adam_beta1, "0.9", "[0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "decay of the first moment")
OPT(REAL, adam_beta2, "0.999", "[0, 1)", TRAINING | DEBUG_OPTIM, RESULT, "decay of the second moment")
OPT(REAL, adam_epsilon, "1e-8", "(0, 1]", TRAINING | DEBUG_OPTIM, RESULT, "added to the root of the second moment")
OPT(REAL, max_grad_norm, "1.0", "[0, 1e30]", TRAINING, RESULT, "longer gradients are scaled to this norm; 0: off")

OPT_SECTION(device, "Memory and device")
OPT(WORD, dtype, "fp32", DTYPE, MODEL | EXPORT | DEBUG_GRAD | MERGE, RESULT,
    "precision (help precision)")
OPT(BOOL, fp8, "false", "", TRAINING | DEBUG_GRAD, RESULT,
    "beside --bf16 or --pure-bf16: layers multiply in 8 bits, on Ada, Hopper and later (help precision)")
OPT(WORD, gradient_accumulation_dtype, "fp32", GRADIENTS, TRAINING, RESULT,
    "of sums over micro-batches; model: 16 bits in bf16 and fp16")
OPT(WORD, weight_copies, "auto", KEEP, MODEL, 0,
    "16-bit weights: resident, or transient, made at each use; auto: as a GPU has room")
OPT(WORD, dropout_masks, "auto", KEEP, TRAINING, 0,
    "of attention: resident, as bits, or transient, made again; auto: as a GPU has room")
OPT(WORD, offload_optimizer, "auto", OFFLOAD_STATES, TRAINING, 0,
    "optimizer states in host memory: all (cpu), none, what a GPU has no room for; disk: in a file")
OPT(STR, offload_dir, "none", "DIR", TRAINING, 0,
    "the folder of that file, on a fast disk; it has no name, and is gone when the run ends")
OPT(WORD, offload_param, "auto", OFFLOAD, TRAINING, 0,
    "fp32 weights in host memory where 16-bit copies stay: all (cpu), none, as a GPU has no room")
OPT(WORD, offload_activations, "auto", OFFLOAD, TRAINING, 0,
    "activations in host memory until the backward pass: all (cpu), none, as a budget asks for")
OPT(INT, head_chunk, "none", "[0, 1048576]", MODEL | DEBUG_GRAD, 0,
    "rows whose logits a language model makes at a time; 0: all; none: 2048 on a CPU, as a GPU has room")
OPT(BOOL, gradient_checkpointing, "false", "", TRAINING | DEBUG_GRAD, 0,
    "keep the layers' inputs, compute the rest again in the backward pass")
OPT(KWARGS, gradient_checkpointing_kwargs, "none", "JSON", TRAINING | DEBUG_GRAD, 0, "which layers, as JSON or KEY=VALUE,...")
OPT_SUB(gradient_checkpointing_kwargs, INT, every_n_layers, "1", "[1, 100000]", TRAINING | DEBUG_GRAD, 0,
    "computed again in groups of n layers: only their inputs are kept, and a classifier's last group")
OPT_SUB(gradient_checkpointing_kwargs, BOOL, offload, "false", "", TRAINING, 0,
    "what is kept is in the host's memory until the backward pass (--offload-activations cpu)")
OPT(STR, recompute, "none", "auto|off|layer|N", TRAINING, 0,
    "activations computed again: layer: all; N: by groups of N layers; auto: as memory asks for")
OPT(BOOL, auto_find_batch_size, "false", "", TRAINING, 0,
    "cut --batch-size into micro-batches, and compute activations again, as is fastest and fits")
OPT(BYTES, memory_budget, "none", "[1, inf)", MODEL | BENCH, 0, "memory to keep to, in the fastest way (on a GPU of the device's): 8GiB, 8Gi or 8g; 8GB is 8e9 bytes")
OPT(WORD, device, "auto", DEVICE, MODEL | BENCH | DEBUG_GRAD | DEBUG_OPTIM | MERGE, 0,
    "auto: a GPU if there is one; reference: slow, in double")
OPT(BYTES, host_memory_budget, "none", "[1, inf)", TRAINING, 0,
    "the host's memory that a run on a GPU keeps to, such as what is offloaded; none: what is free")
OPT(STR, gpu, "none", "NAME", PLAN, 0, "plan for this GPU by its data sheet, in any build: rtx4090, a100-80gb; snug info lists them")
OPT(STR, gpus, "none", "N|all|0,2", TRAINING | EVAL | PREDICT | BENCH, 0,
    "GPUs that work side by side, in training each on --batch-size rows: so many, or these; 2, is GPU 2")
OPT(REAL, network, "none", "(0, 100000]", PLAN, 0,
    "Gbit/s from a GPU to those of other hosts, such as 400: --gpus are of several; none: of one")
OPT(INT, gpus_per_host, "8", "[1, 1024]", PLAN, 0, "of --network: GPUs that reach each other without it")
OPT(INT, ranks, "1", "[1, 1024]", TRAINING | EVAL | PREDICT | BENCH, RESULT,
    "the same on a CPU: copies of the model that work side by side; with --gpus their number")
OPT(INT, num_processes, "1", "[1, 1024]", TRAIN | EVAL, 0,
    "that work as one, each a rank: started here, or by torchrun, mpirun or srun, which say it")
OPT(INT, process_index, "0", "[0, 1023]", TRAIN | EVAL, 0, "which of them this one is; 0 prints and writes")
OPT(STR, main_process, "none", "HOST:PORT", TRAIN | EVAL, 0, "where they meet: the host of process 0, and a port that it listens on")
OPT(REAL, peer_timeout, "20", "[1, 3600]", TRAIN | EVAL, 0, "seconds without a sign of life after which a process counts as lost")
OPT(INT, zero_stage, "0", "[0, 3]", TRAINING | BENCH, 0,
    "what ranks divide among them: 1: optimizer states; 2: gradients, too; 3: weights, too; 0: nothing")
OPT(STR, deepspeed, "none", "FILE|JSON", TRAINING, 0,
    "DeepSpeed's configuration, as the Trainer reads it: docs/trainer.md has its members")
OPT(STR, device_profile, "none", "FILE", PLAN, 0,
    "plan for the GPU that this file is of, which need not be there; see docs/building.md")
OPT(INT, threads, "none", "[1, 4096]", DATA | GENERATE | BENCH | DEBUG_GRAD | DEBUG_OPTIM | MERGE, 0, "of the CPU; none: all; no effect on results")

OPT_SECTION(logging, "Logging and evaluation")
OPT(WORD, logging_strategy, "steps", WHEN, TRAINING, 0, "when to log")
OPT(STEPS, logging_steps, "500", "[1, inf)", TRAINING, 0, "between two lines of the log; below 1: share of all steps")
OPT(BOOL, logging_first_step, "false", "", TRAINING, 0, "log the first step too")
OPT(BOOL, log_hash, "false", "", TRAINING, 0, "log a hash of the whole training state, to compare two runs")
OPT(STR, report_to, "none", "NAME,...", TRAINING, 0, "tensorboard: event files besides log.jsonl; other names are ignored")
OPT(STR, logging_dir, "none", "DIR", TRAINING, 0, "of the event files; none: runs/TIME_HOST in the output folder")
OPT(WORD, eval_strategy, "no", WHEN, TRAINING, 0, "when to evaluate")
OPT(STEPS, eval_steps, "none", "[1, inf)", TRAINING, 0, "between two evaluations; none: --logging-steps")
OPT(REAL, eval_delay, "0", "[0, 1000000000]", TRAINING, 0, "no evaluation before this step or epoch")
OPT(BOOL, eval_on_start, "false", "", TRAINING, 0, "evaluate before the first step")
OPT(INT, eval_samples, "none", "[1, 10000]", TRAINING, 0,
    "at each evaluation so many rows of the data are answered, with text: shown, and in the log")
OPT(BOOL, predict_with_generate, "false", "", TRAINING | EVAL, 0,
    "evaluate the texts that an encoder-decoder writes too: exact_match, rougeL and chrf")
OPT(REAL, threshold, "0.5", "(0, 1)", ROWS, 0, "multi-label: labels of a greater probability are predicted")
OPT(INT, per_device_eval_batch_size, "none", "[1, 1000000]", MODEL | MERGE, 0,
    "batches as large as so many of the longest rows; none: 4096 tokens, 16384 on a GPU")

OPT_SECTION(checkpoints, "Checkpoints")
OPT(WORD, save_strategy, "steps", SAVE, TRAINING, 0, "when to save; best: after each evaluation better than all before")
OPT(STEPS, save_steps, "500", "[1, inf)", TRAINING, 0, "between two checkpoints; below 1: share of all steps")
OPT(INT, save_total_limit, "none", "[1, 1000000]", TRAINING, 0, "checkpoints kept, and never fewer than 2; none: all")
OPT(BOOL, save_only_model, "false", "", TRAINING, 0, "no optimizer state: smaller, but nothing to resume from")
OPT(BOOL, load_best_model_at_end, "false", "", TRAINING, 0, "the result is the best evaluation's model, not the last")
OPT(STR, metric_for_best_model, "none", "NAME", TRAINING, 0, "what is best, such as accuracy or macro_f1 (docs/metrics.md); none: loss")
OPT(BOOL, greater_is_better, "none", "", TRAINING, 0, "none: true, but for a loss, an error or perplexity")
OPT(INT, early_stopping_patience, "none", "[1, 1000000]", TRAINING, 0,
    "stop after so many evaluations in a row whose metric is not better than the best before; none: never")
OPT(REAL, early_stopping_threshold, "0", "[0, 1000000000]", TRAINING, 0, "better counts for early stopping if by more than this")
OPT(STR, resume_from_checkpoint, "none", "DIR|true|auto", TRAINING, 0,
    "an output folder or one of its checkpoints; true: the output folder; auto: the same, or a fresh start")
OPT(BOOL, allow_data_change, "false", "", TRAINING, 0, "resume although the data are not those of the checkpoint")
OPT(BOOL, allow_option_change, "false", "", TRAINING, 0, "resume with another batch size, accumulation or learning rate than the checkpoint's")
OPT(BOOL, require_bitexact, "false", "", TRAINING, 0, "an error instead of a note when resuming may change bits")

OPT_SECTION(bench, "Measuring")
OPT(STR, rows, "none", "NAME,...", BENCH, 0, "which rows of the table; none: all; with --gpus one of them, bf16")
OPT(INT, samples_per_step, "4", "[1, 1000000]", BENCH, 0,
    "of a step, for each of --gpus; with accumulation in micro-batches of one")
OPT(INT, steps, "none", "[3, 1000000]", BENCH, 0, "optimizer steps of each row; none: 128 on a GPU, 6 on a CPU")
OPT(BOOL, discard_model, "false", "", TRAINING, 0, "no model is written at the end: for measurements")

OPT_SECTION(output, "Output")
OPT(BOOL, no_report, "false", "", TRAINING, 0, "no report.html in the output folder: the page of the run, made again at evaluations")
OPT(BOOL, live, "false", "", TRAIN, 0, "the page of the run in a browser on this machine while it trains; a note tells its address")
OPT(INT, live_port, "0", "[0, 65535]", TRAIN, 0, "of 127.0.0.1; 0: any that is free")
OPT(STR, output, "none", "FILE", PREDICT | EXPORT | REPORT | COMPARE, 0,
    "predictions, .csv or .jsonl; an exported model, .gguf; a report, .html; it is there once it is whole")
OPT(STR, picture, "none", "FILE", PLAN, 0, "draw memory over the nodes of a step into this file, .svg")
OPT(BOOL, anatomy, "false", "", PLAN, 0, "tell more of what holds memory at the peak: by layer and kind, and all that holds something")
OPT(BOOL, overwrite_output, "false", "", PREDICT | EXPORT | PLAN, 0, "a file that is there already is replaced")
OPT(WORD, outtype, "f16", OUTTYPE, EXPORT, 0, "numbers of matrices in a .gguf file, as llama.cpp's converter calls them")
OPT(BOOL, onnx, "false", "", EXPORT, 0, "an ONNX model, model.onnx, in place of a model's weights")
OPT(INT, top_k, "none", "[1, 100000]", PREDICT | GENERATE, 0,
    "so many likeliest labels (none: all), or tokens to draw from (none: the model's, or 50)")
OPT(INT, max_new_tokens, "128", "[1, 1048576]", GENERATE | TRAINING | EVAL | PREDICT, 0, "tokens behind a prompt, at most")
OPT(INT, num_beams, "none", "[1, 64]", GENERATE | TRAINING | EVAL | PREDICT, 0,
    "texts that are searched side by side for the likeliest; none: generation_config.json's, else 1")
OPT(REAL, length_penalty, "none", "[-100, 100]", GENERATE | EVAL | PREDICT, 0,
    "beams: log-probabilities are divided by length^this; none: generation_config.json's, else 1")
OPT(WORD, early_stopping, "false", BEAMS_END, GENERATE | EVAL | PREDICT, 0,
    "beams: end with so many ended texts; not given: generation_config.json's, else false")
OPT(BOOL, do_sample, "false", "", GENERATE, 0, "tokens are drawn at random; else each is the likeliest one")
OPT(REAL, temperature, "none", "(0, 1000]", GENERATE, 0, "what logits are divided by before a token is drawn; none: the model's, or 1")
OPT(REAL, top_p, "none", "(0, 1]", GENERATE, 0, "a token is drawn from the likeliest with so much probability together; none: the model's, or 1")
OPT(BOOL, json, "false", "", TRAIN | EVAL | PREDICT | GENERATE | PLAN | INFO | INSPECT | TOKENIZE, 0, "print JSON")
OPT(WORD, dump, "none", DUMP, PLAN, 0, "print the programs after this pass instead of the plan")
OPT(STR, config, "none", "FILE", MODEL | DATA | DEBUG_GRAD | DEBUG_OPTIM, 0,
    "YAML or JSON file of options, such as a saved TrainingArguments; the command line wins")

/* ---- Other spellings. ---- */

OPT_SPELLING(SHORT, batch_size, per_device_train_batch_size, NULL)
OPT_SPELLING(SHORT, batch_size, per_device_eval_batch_size, NULL) /* where there is no training */
OPT_SPELLING(SHORT, batch_size, samples_per_step, NULL)           /* in bench */
OPT_SPELLING(SHORT, bf16, dtype, "bf16")
OPT_SPELLING(SHORT, pure_bf16, dtype, "pure-bf16")
OPT_SPELLING(SHORT, fp16, dtype, "fp16")
OPT_SPELLING(SHORT, tf32, dtype, "tf32")
OPT_SPELLING(SHORT, grad_accum_dtype, gradient_accumulation_dtype, NULL) /* DeepSpeed's */
OPT_SPELLING(SHORT, backend, device, NULL)
OPT_SPELLING(SHORT, activation_checkpointing, gradient_checkpointing, NULL) /* since transformers 5.23 */
OPT_SPELLING(SHORT, activation_checkpointing_kwargs, gradient_checkpointing_kwargs, NULL)
OPT_SPELLING(HABIT, activation_offloading, offload_activations, "cpu") /* TRL's */
OPT_SPELLING(SHORT, use_cpu, device, "cpu")
OPT_SPELLING(OLDER, no_cuda, device, "cpu")
OPT_SPELLING(OLDER, per_gpu_train_batch_size, per_device_train_batch_size, NULL)
OPT_SPELLING(OLDER, per_gpu_eval_batch_size, per_device_eval_batch_size, NULL)
OPT_SPELLING(OLDER, evaluation_strategy, eval_strategy, NULL)
OPT_SPELLING(OLDER, adafactor, optim, "adafactor")
OPT_SPELLING(OLDER, group_by_length, train_sampling_strategy, "group_by_length")
OPT_SPELLING(RATIO, warmup_ratio, warmup_steps, NULL)

OPT_SPELLING(SHORT, lora_target_modules, target_modules, NULL) /* TRL's */
OPT_SPELLING(SHORT, lora_target_parameters, target_parameters, NULL)
OPT_SPELLING(SHORT, lora_modules_to_save, modules_to_save, NULL)

/* What people type who come from the Trainer's example scripts, from Accelerate, Lightning or plain habit. */
OPT_SPELLING(HABIT, model_name_or_path, model, NULL)
OPT_SPELLING(HABIT, model_name, model, NULL)
OPT_SPELLING(HABIT, outfile, output, NULL) /* of llama.cpp's converter */
OPT_SPELLING(HABIT, max_source_length, max_length, NULL)
OPT_SPELLING(HABIT, summary_column, target_column, NULL)
OPT_SPELLING(HABIT, src_lang, source_lang, NULL)
OPT_SPELLING(HABIT, tgt_lang, target_lang, NULL)
OPT_SPELLING(HABIT, train_file, train_data, NULL)
OPT_SPELLING(HABIT, train_data_file, train_data, NULL)
OPT_SPELLING(HABIT, validation_file, eval_data, NULL)
OPT_SPELLING(HABIT, eval_data_file, eval_data, NULL)
OPT_SPELLING(HABIT, eval_file, eval_data, NULL)
OPT_SPELLING(HABIT, validation_data, eval_data, NULL)
OPT_SPELLING(HABIT, test_file, data, NULL)
OPT_SPELLING(HABIT, test_data, data, NULL)
OPT_SPELLING(HABIT, text_column_name, text_column, NULL)
OPT_SPELLING(HABIT, text_column_names, text_column, NULL)
OPT_SPELLING(HABIT, label_column_name, label_column, NULL)
OPT_SPELLING(HABIT, max_seq_length, max_length, NULL)
OPT_SPELLING(HABIT, max_seq_len, max_length, NULL)
OPT_SPELLING(HABIT, epochs, num_train_epochs, NULL)
OPT_SPELLING(HABIT, num_epochs, num_train_epochs, NULL)
OPT_SPELLING(HABIT, max_train_steps, max_steps, NULL)
OPT_SPELLING(HABIT, train_batch_size, per_device_train_batch_size, NULL)
OPT_SPELLING(HABIT, eval_batch_size, per_device_eval_batch_size, NULL)
OPT_SPELLING(HABIT, grad_accum_steps, gradient_accumulation_steps, NULL)
OPT_SPELLING(HABIT, gradient_accumulation, gradient_accumulation_steps, NULL)
OPT_SPELLING(HABIT, lr, learning_rate, NULL)
OPT_SPELLING(HABIT, auto_lr_find, lr_find, NULL) /* Lightning's */
OPT_SPELLING(HABIT, wd, weight_decay, NULL)
OPT_SPELLING(HABIT, optimizer, optim, NULL)
OPT_SPELLING(HABIT, lr_scheduler, lr_scheduler_type, NULL)
OPT_SPELLING(HABIT, scheduler, lr_scheduler_type, NULL)
OPT_SPELLING(HABIT, num_warmup_steps, warmup_steps, NULL)
OPT_SPELLING(HABIT, generation_num_beams, num_beams, NULL)
OPT_SPELLING(HABIT, gradient_clipping, max_grad_norm, NULL)
OPT_SPELLING(HABIT, grad_clip, max_grad_norm, NULL)
OPT_SPELLING(HABIT, clip_grad_norm, max_grad_norm, NULL)
OPT_SPELLING(HABIT, label_smoothing, label_smoothing_factor, NULL)
OPT_SPELLING(HABIT, fp32, dtype, "fp32")
OPT_SPELLING(HABIT, mixed_precision, dtype, NULL)
OPT_SPELLING(HABIT, precision, dtype, NULL)
OPT_SPELLING(HABIT, cpu, device, "cpu")
OPT_SPELLING(HABIT, cuda, device, "cuda")
OPT_SPELLING(HABIT, num_threads, threads, NULL)
OPT_SPELLING(HABIT, nproc_per_node, ranks, NULL)
OPT_SPELLING(HABIT, world_size, num_processes, NULL)
OPT_SPELLING(HABIT, machine_rank, process_index, NULL)
OPT_SPELLING(HABIT, num_gpus, gpus, NULL)
OPT_SPELLING(HABIT, resume, resume_from_checkpoint, NULL)
OPT_SPELLING(HABIT, checkpointing_steps, save_steps, NULL)

OPT_SPELLING(HABIT, torch_dtype, dtype, NULL)
OPT_SPELLING(HABIT, random_seed, seed, NULL)
OPT_SPELLING(HABIT, val_data, eval_data, NULL)
OPT_SPELLING(HABIT, valid_data, eval_data, NULL)
OPT_SPELLING(HABIT, dev_data, eval_data, NULL)
OPT_SPELLING(HABIT, val_file, eval_data, NULL)
OPT_SPELLING(HABIT, dev_file, eval_data, NULL)
OPT_SPELLING(HABIT, val_split, eval_split, NULL)
OPT_SPELLING(HABIT, validation_split, eval_split, NULL)
OPT_SPELLING(HABIT, input, data, NULL)
OPT_SPELLING(HABIT, input_file, data, NULL)
OPT_SPELLING(HABIT, out, output_dir, NULL)
OPT_SPELLING(HABIT, out_dir, output_dir, NULL)
OPT_SPELLING(HABIT, outdir, output_dir, NULL)
OPT_SPELLING(HABIT, output_file, output, NULL)
OPT_SPELLING(HABIT, dataset_text_field, text_column, NULL) /* TRL's */
OPT_SPELLING(HABIT, text_field, text_column, NULL)
OPT_SPELLING(HABIT, label_field, label_column, NULL)
OPT_SPELLING(HABIT, separator, delimiter, NULL)
OPT_SPELLING(HABIT, sep, delimiter, NULL)
OPT_SPELLING(HABIT, num_classes, num_labels, NULL)
OPT_SPELLING(HABIT, max_len, max_length, NULL)
OPT_SPELLING(HABIT, seq_len, max_length, NULL)
OPT_SPELLING(HABIT, seq_length, max_length, NULL)
OPT_SPELLING(HABIT, sequence_length, max_length, NULL)
OPT_SPELLING(HABIT, cutoff_len, max_length, NULL)
OPT_SPELLING(HABIT, warmup, warmup_steps, NULL) /* a number of steps, or a share of them */
OPT_SPELLING(HABIT, clip, max_grad_norm, NULL)
OPT_SPELLING(HABIT, clip_grad, max_grad_norm, NULL)
OPT_SPELLING(HABIT, patience, early_stopping_patience, NULL)
OPT_SPELLING(HABIT, log_every, logging_steps, NULL)
OPT_SPELLING(HABIT, eval_every, eval_steps, NULL)
OPT_SPELLING(HABIT, save_every, save_steps, NULL)
OPT_SPELLING(HABIT, max_tokens, max_new_tokens, NULL)
OPT_SPELLING(HABIT, n_predict, max_new_tokens, NULL)
OPT_SPELLING(HABIT, temp, temperature, NULL)

OPT_SPELLING(HABIT, r, lora_r, NULL)
OPT_SPELLING(HABIT, bnb_4bit_use_double_quant, use_bnb_nested_quant, NULL)
OPT_SPELLING(HABIT, lora_rank, lora_r, NULL)
OPT_SPELLING(HABIT, lora_target, target_modules, NULL)
OPT_SPELLING(HABIT, peft, use_peft, NULL)
OPT_SPELLING(HABIT, lora, use_peft, NULL)
OPT_SPELLING(HABIT, use_lora, use_peft, NULL)
OPT_SPELLING(HABIT, adapter_name_or_path, adapter, NULL)
OPT_SPELLING(HABIT, peft_model, adapter, NULL)

OPT_HINT("gpu", ALL_COMMANDS & ~PLAN, "give --device cuda")
OPT_HINT("lora_bias", ALL_COMMANDS, "an adapter trains no biases; leave it out")
OPT_HINT("bias", ALL_COMMANDS, "an adapter trains no biases; leave it out")
OPT_HINT("task_type", ALL_COMMANDS, "--task says what is learned")
OPT_HINT("lora_task_type", ALL_COMMANDS, "--task says what is learned")
OPT_HINT("do_regression", ALL_COMMANDS, "give --problem-type regression")
OPT_HINT("dropout", ALL_COMMANDS, "give --hidden-dropout-prob and --attention-probs-dropout-prob")
OPT_HINT("betas", ALL_COMMANDS, "give --adam-beta1 and --adam-beta2")
OPT_HINT("beta1", ALL_COMMANDS, "give --adam-beta1")
OPT_HINT("beta2", ALL_COMMANDS, "give --adam-beta2")
OPT_HINT("eps", ALL_COMMANDS, "give --adam-epsilon")
OPT_HINT("momentum", ALL_COMMANDS, "give --optim-args momentum=0.9")
OPT_HINT("early_stopping", TRAINING, "give --early-stopping-patience N")
OPT_HINT("amp", ALL_COMMANDS, "give --bf16, or --fp16 on a GPU")
OPT_HINT("half", ALL_COMMANDS, "give --bf16, or --fp16 on a GPU")
OPT_HINT("dataset_name", ALL_COMMANDS, "give files, or OWNER/NAME for a dataset of the hub, with --train-data and --eval-data")
OPT_HINT("dataset", ALL_COMMANDS, "give files, or OWNER/NAME for a dataset of the hub, with --train-data and --eval-data")
OPT_HINT("task_name", ALL_COMMANDS, "give files, or OWNER/NAME for a dataset of the hub, with --train-data and --eval-data")
OPT_HINT("tokenizer_name", ALL_COMMANDS, "the tokenizer lies in the folder of --model")
OPT_HINT("tokenizer", ALL_COMMANDS, "the tokenizer lies in the folder of --model")
OPT_HINT("use_fast_tokenizer", ALL_COMMANDS, "there is one, which gives the same ids; leave it out")
OPT_HINT("config_name", ALL_COMMANDS, "config.json lies in the folder of --model; --config is a file of options")
OPT_HINT("do_lower_case", ALL_COMMANDS, "the tokenizer's files in the folder of --model say so")
OPT_HINT("id2label", ALL_COMMANDS, "labels are found in the data, and config.json gets them")
OPT_HINT("label2id", ALL_COMMANDS, "labels are found in the data, and config.json gets them")
OPT_HINT("max_train_samples", ALL_COMMANDS, "give a file with fewer rows")
OPT_HINT("max_eval_samples", ALL_COMMANDS, "give a file with fewer rows")
OPT_HINT("pad_to_max_length", ALL_COMMANDS, "nothing is padded; leave it out")
OPT_HINT("overwrite_cache", ALL_COMMANDS, "the cache follows the data by itself; leave it out")
OPT_HINT("shuffle", ALL_COMMANDS, "rows are shuffled in each epoch; --train-sampling-strategy names other orders")
OPT_HINT("trust_remote_code", ALL_COMMANDS, "no code of a model folder is run; leave it out")
OPT_HINT("num_workers", ALL_COMMANDS, "batches are prepared ahead anyway; --threads is for computing")
OPT_HINT("workers", ALL_COMMANDS, "batches are prepared ahead anyway; --threads is for computing")
OPT_HINT("num_proc", ALL_COMMANDS, "batches are prepared ahead anyway; --threads is for computing")
OPT_HINT("preprocessing_num_workers", ALL_COMMANDS, "batches are prepared ahead anyway; --threads is for computing")
OPT_HINT("device_map", ALL_COMMANDS, "the model lies on one device whole; --device says which, and --gpus trains copies side by side")
OPT_HINT("attn_implementation", ALL_COMMANDS, "attention is never stored whole anyway; leave it out")
OPT_HINT("flash_attention", ALL_COMMANDS, "attention is never stored whole anyway; leave it out")
OPT_HINT("bnb_4bit_compute_dtype", ALL_COMMANDS, "--dtype says it: --bf16 computes in bf16")
OPT_HINT("bnb_4bit_quant_storage", ALL_COMMANDS, "two codes are a byte; leave it out")
OPT_HINT("quantization_config", ALL_COMMANDS, "give --load-in-4bit, --bnb-4bit-quant-type and --use-bnb-nested-quant")
OPT_HINT("verbose", ALL_COMMANDS, "there is one amount of talk; 2>/dev/null leaves the notes out")
OPT_HINT("quiet", ALL_COMMANDS, "there is one amount of talk; 2>/dev/null leaves the notes out")
OPT_HINT("packing", ALL_COMMANDS, "rows are never padded; --block-size joins plain texts")
OPT_HINT("metric", TRAINING, "all are counted; --metric-for-best-model chooses by one")
OPT_HINT("metric", EVAL, "all are counted and printed; leave it out")
OPT_HINT("metrics", TRAINING, "all are counted; --metric-for-best-model chooses by one")
OPT_HINT("metrics", EVAL, "all are counted and printed; leave it out")
OPT_HINT("repetition_penalty", GENERATE, "not there; --do-sample with --temperature and --top-p repeats less")
OPT_HINT("no_repeat_ngram_size", GENERATE, "not there; --do-sample with --temperature and --top-p repeats less")
OPT_HINT("min_p", GENERATE, "not there; use --top-p or --top-k")
OPT_HINT("typical_p", GENERATE, "not there; use --top-p or --top-k")
OPT_HINT("num_return_sequences", GENERATE, "a prompt gets one text; run again with another --seed")
OPT_HINT("eos_token_id", GENERATE, "a text ends where the model's files say, or with --max-new-tokens")
OPT_HINT("stop", GENERATE, "a text ends where the model's files say, or with --max-new-tokens")
/* Options of other commands. */
OPT_HINT("max_length", GENERATE, "give --max-new-tokens")
OPT_HINT("text", GENERATE, "give --prompt or --chat")
OPT_HINT("prompt", PREDICT, "give --text")
OPT_HINT("train_data", EVAL | PREDICT | GENERATE, "give --data")
OPT_HINT("eval_data", EVAL | PREDICT | GENERATE, "give --data")
OPT_HINT("data", TRAINING, "give --train-data and --eval-data")
OPT_HINT("output", TRAINING, "give --output-dir")
OPT_HINT("output", EVAL | GENERATE, "results go to the standard output")
OPT_HINT("output_dir", PREDICT, "give --output FILE")
OPT_HINT("output_dir", EVAL | GENERATE, "results go to the standard output")

/* ---- What --help shows. ---- */

OPT_USUAL(model, MODEL)
OPT_USUAL(train_data, TRAINING)
OPT_USUAL(eval_data, TRAIN)
OPT_USUAL(prompt, GENERATE)
OPT_USUAL(chat, GENERATE)
OPT_USUAL(data, EVAL | PREDICT | GENERATE)
OPT_USUAL(max_new_tokens, GENERATE)
OPT_USUAL(do_sample, GENERATE)
OPT_USUAL(temperature, GENERATE)
OPT_USUAL(text, PREDICT)
OPT_USUAL(text_column, EVAL | PREDICT)
OPT_USUAL(label_column, EVAL)
OPT_USUAL(output_dir, TRAIN)
OPT_USUAL(max_length, ROWS)
OPT_USUAL(num_train_epochs, TRAIN)
OPT_USUAL(per_device_train_batch_size, TRAINING)
OPT_USUAL(gradient_accumulation_steps, PLAN)
OPT_USUAL(per_device_eval_batch_size, EVAL)
OPT_USUAL(top_k, PREDICT | GENERATE)
OPT_USUAL(top_p, GENERATE)
OPT_USUAL(learning_rate, TRAIN)
OPT_USUAL(dtype, ROWS)
OPT_USUAL(gradient_checkpointing, PLAN)
OPT_USUAL(optim, PLAN)
OPT_USUAL(memory_budget, PLAN)
OPT_USUAL(resume_from_checkpoint, TRAIN)
OPT_USUAL(device, EVAL | PREDICT)
OPT_USUAL(threads, EVAL)
OPT_USUAL(output, PREDICT)
OPT_USUAL(json, EVAL | PREDICT | PLAN | GENERATE)

OPT_ENV("SNUG_THREADS", threads)
OPT_ENV("SNUG_CACHE_DIR", cache_dir)

/* ---- Values. ---- */

OPT_VALUE(dtype, "float32", "fp32", NULL)
OPT_VALUE(dtype, "bfloat16", "bf16", NULL)
OPT_VALUE(dtype, "float16", "fp16", NULL)
OPT_VALUE(dtype, "no", "fp32", NULL) /* of --mixed_precision */
OPT_VALUE(dtype, "32", "fp32", NULL) /* of --precision */
OPT_VALUE(dtype, "bf16-mixed", "bf16", NULL)
OPT_VALUE(dtype, "bf16-true", "pure-bf16", NULL)
OPT_VALUE(dtype, "16-mixed", "fp16", NULL)
OPT_VALUE(gradient_accumulation_dtype, "float32", "fp32", NULL)
OPT_VALUE(device, "gpu", "cuda", NULL)
OPT_VALUE(optim, "adamw", "adamw_torch", NULL)
OPT_VALUE(optim, "adamw_torch_fused", "adamw_torch", NULL)
OPT_VALUE(optim, "adamw_torch_xla", "adamw_torch", NULL)
OPT_VALUE(optim, "adamw_torch_npu_fused", "adamw_torch", NULL)
OPT_VALUE(optim, "adamw_apex_fused", "adamw_torch", NULL)
OPT_VALUE(optim, "adamw_hf", "adamw_torch", "which adds epsilon after the bias correction, not before")
OPT_VALUE(optim, "adamw_8bit", "adamw_bnb_8bit", NULL)
OPT_VALUE(optim, "paged_adamw", "adamw_torch",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_adamw_32bit", "adamw_torch",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_adamw_8bit", "adamw_bnb_8bit",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_ademamix_32bit", "ademamix",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_ademamix_8bit", "ademamix_8bit",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_lion_32bit", "lion_32bit",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "paged_lion_8bit", "lion_8bit",
    "whose states go to the host's memory where the device has no room (--offload-optimizer)")
OPT_VALUE(optim, "rmsprop_bnb", "rmsprop", NULL)
OPT_VALUE(optim, "rmsprop_bnb_32bit", "rmsprop", NULL)
OPT_LACKING(optim, "adamw_anyprecision|grokadamw", "is not there yet; the nearest is adamw_torch")
OPT_LACKING(optim, "adamw_torch_4bit|adamw_torch_8bit", "is not there yet; the nearest is adamw_bnb_8bit")
OPT_LACKING(optim,
    "galore_adamw|galore_adamw_8bit|galore_adafactor|galore_adamw_layerwise|galore_adamw_8bit_layerwise|"
    "galore_adafactor_layerwise|apollo_adamw|apollo_adamw_layerwise",
    "is not there yet; the nearest in memory is adafactor")
OPT_LACKING(device, "cuda:0|cuda:1|cuda:2|cuda:3|cuda:4|cuda:5|cuda:6|cuda:7",
    "is one GPU by its number; give --gpus with that number and a comma, as in --gpus 1,")
OPT_LACKING(train_sampling_strategy, "batch_rebalance", "is not there yet")

/* ---- What has no effect alone. ---- */

OPT_NEEDS(lora_r, use_peft, "true")
OPT_NEEDS(lora_alpha, use_peft, "true")
OPT_NEEDS(lora_dropout, use_peft, "true")
OPT_NEEDS(target_modules, use_peft, "true")
OPT_NEEDS(target_parameters, use_peft, "true")
OPT_NEEDS(modules_to_save, use_peft, "true")
OPT_NEEDS(use_rslora, use_peft, "true")
OPT_NEEDS(use_dora, use_peft, "true")
OPT_NEEDS(bnb_4bit_quant_type, load_in_4bit, "true")
OPT_NEEDS(use_bnb_nested_quant, load_in_4bit, "true")
/* In merge, which reads data only to compare losses. */
OPT_NEEDS(task, data, "*")
OPT_NEEDS(text_column, data, "*")
OPT_NEEDS(text_pair_column, data, "*")
OPT_NEEDS(label_column, data, "*")
OPT_NEEDS(ignore_label, data, "*")
OPT_NEEDS(delimiter, data, "*")
OPT_NEEDS(max_length, data, "*")
OPT_NEEDS(chat_template, data, "*")
OPT_NEEDS(assistant_only_loss, data, "*")
OPT_NEEDS(completion_only_loss, data, "*")
OPT_NEEDS(block_size, data, "*")
OPT_NEEDS(live_port, live, "true")
OPT_NEEDS(device_profile, device, "auto|cuda")
OPT_NEEDS(gpu, device, "auto|cuda")
OPT_NEEDS(host_memory_budget, device, "auto|cuda")
OPT_NEEDS(network, gpus, "*")
OPT_NEEDS(gpus_per_host, network, "*")
OPT_NEEDS(problem_type, task, "auto|sequence-classification")
OPT_NEEDS(num_labels, task, "auto|sequence-classification|token-classification")
OPT_NEEDS(classifier_dropout, task, "auto|sequence-classification|token-classification")
OPT_NEEDS(text_pair_column, task, "auto|sequence-classification")
OPT_NEEDS(ignore_label, task, "auto|sequence-classification")
OPT_NEEDS(label_column, task, "auto|sequence-classification|token-classification")
OPT_NEEDS(chat_template, task, "auto|causal-lm")
OPT_NEEDS(assistant_only_loss, task, "auto|causal-lm")
OPT_NEEDS(completion_only_loss, task, "auto|causal-lm")
OPT_NEEDS(doc_stride, task, "auto|question-answering")
OPT_NEEDS(target_column, task, "auto|seq2seq-lm")
OPT_NEEDS(source_prefix, task, "auto|seq2seq-lm")
OPT_NEEDS(max_target_length, task, "auto|seq2seq-lm")
OPT_NEEDS(source_lang, task, "auto|seq2seq-lm")
OPT_NEEDS(target_lang, task, "auto|seq2seq-lm")
OPT_NEEDS(max_answer_length, task, "auto|question-answering")
OPT_NEEDS(version_2_with_negative, task, "auto|question-answering")
OPT_NEEDS(null_score_diff_threshold, task, "auto|question-answering")
OPT_NEEDS(block_size, task, "auto|causal-lm")
OPT_NEEDS(show_sample, task, "auto|causal-lm")
OPT_NEEDS(eval_samples, task, "auto|causal-lm|seq2seq-lm")
OPT_NEEDS(predict_with_generate, task, "auto|seq2seq-lm")
OPT_NEEDS(num_beams, task, "auto|causal-lm|seq2seq-lm")
OPT_NEEDS(num_beams, eval_samples, "*")
OPT_NEEDS(num_beams, predict_with_generate, "true")
OPT_NEEDS(num_beams, do_sample, "false")
OPT_NEEDS(length_penalty, task, "auto|causal-lm|seq2seq-lm")
OPT_NEEDS(length_penalty, predict_with_generate, "true")
OPT_NEEDS(length_penalty, do_sample, "false")
OPT_NEEDS(early_stopping, task, "auto|causal-lm|seq2seq-lm")
OPT_NEEDS(early_stopping, predict_with_generate, "true")
OPT_NEEDS(early_stopping, do_sample, "false")
OPT_NEEDS(max_new_tokens, task, "auto|causal-lm|seq2seq-lm")
OPT_NEEDS(max_new_tokens, eval_samples, "*") /* in training; */
OPT_NEEDS(max_new_tokens, predict_with_generate, "true") /* in an evaluation */
OPT_NEEDS(mlm_probability, task, "auto|masked-lm")
OPT_NEEDS(label_smoothing_factor, problem_type, "auto|single_label_classification")
OPT_NEEDS(gradient_accumulation_dtype, dtype, "bf16|pure-bf16|fp16")
OPT_NEEDS(optim_args_momentum, optim, "sgd|rmsprop|muon|schedule_free_sgd")
OPT_NEEDS(optim_args_r, optim, "schedule_free_adamw|schedule_free_radam|schedule_free_sgd")
OPT_NEEDS(optim_args_weight_lr_power, optim, "schedule_free_adamw|schedule_free_radam|schedule_free_sgd")
OPT_NEEDS(optim_args_ns_steps, optim, "muon")
OPT_NEEDS(optim_args_adjust_lr_fn, optim, "muon")
OPT_NEEDS(optim_args_dampening, optim, "sgd")
OPT_NEEDS(optim_args_nesterov, optim, "sgd")
OPT_NEEDS(optim_args_eps1, optim, "adafactor|adalomo")
OPT_NEEDS(optim_args_eps2, optim, "adafactor")
OPT_NEEDS(optim_args_eps2, optim_args_scale_parameter, "true")
OPT_NEEDS(optim_args_clip_threshold, optim, "adafactor|adalomo")
OPT_NEEDS(optim_args_decay_rate, optim, "adafactor|adalomo")
OPT_NEEDS(optim_args_beta1, optim, "adafactor|ademamix|ademamix_8bit")
OPT_NEEDS(optim_args_scale_parameter, optim, "adafactor")
OPT_NEEDS(optim_args_relative_step, optim, "adafactor")
OPT_NEEDS(optim_args_warmup_init, optim, "adafactor")
OPT_NEEDS(optim_args_warmup_init, optim_args_relative_step, "true")
OPT_NEEDS(learning_rate, optim_args_relative_step, "false")
OPT_NEEDS(lr_scheduler_type, optim_args_relative_step, "false")
OPT_NEEDS(lr_find, optim_args_relative_step, "false")
OPT_NEEDS(warmup_steps, optim_args_relative_step, "false")
OPT_NEEDS(optim_args_min_8bit_size, optim, "adamw_bnb_8bit|rmsprop_bnb_8bit|lion_8bit|ademamix_8bit")
OPT_NEEDS(optim_args_embeddings_8bit, optim, "adamw_bnb_8bit|rmsprop_bnb_8bit|lion_8bit|ademamix_8bit")
OPT_NEEDS(optim_args_beta2, optim, "ademamix|ademamix_8bit")
OPT_NEEDS(optim_args_eps, optim, "rmsprop|rmsprop_bnb_8bit|adagrad|ademamix|ademamix_8bit|muon")
OPT_NEEDS(optim_args_alpha, optim, "rmsprop|rmsprop_bnb_8bit|ademamix|ademamix_8bit")
OPT_NEEDS(optim_args_centered, optim, "rmsprop")
OPT_NEEDS(optim_args_lr_decay, optim, "adagrad")
OPT_NEEDS(optim_args_beta3, optim, "ademamix|ademamix_8bit")
OPT_NEEDS(optim_args_t_alpha, optim, "ademamix|ademamix_8bit")
OPT_NEEDS(optim_args_t_beta3, optim, "ademamix|ademamix_8bit")
OPT_NEEDS(adam_beta1, optim, "adamw_torch|adamw_bnb_8bit|lion_32bit|lion_8bit|ademamix|ademamix_8bit|stable_adamw|muon|schedule_free_adamw|schedule_free_radam")
OPT_NEEDS(adam_beta2, optim, "adamw_torch|adamw_bnb_8bit|lion_32bit|lion_8bit|ademamix|ademamix_8bit|stable_adamw|muon|schedule_free_adamw|schedule_free_radam")
OPT_NEEDS(adam_epsilon, optim, "adamw_torch|adamw_bnb_8bit|ademamix|ademamix_8bit|stable_adamw|muon|schedule_free_adamw|schedule_free_radam")
OPT_NEEDS(lr_scheduler_kwargs_num_cycles, lr_scheduler_type,
    "cosine|cosine_with_restarts|cosine_with_min_lr|cosine_warmup_with_min_lr|warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_power, lr_scheduler_type, "polynomial")
OPT_NEEDS(lr_scheduler_kwargs_lr_end, lr_scheduler_type, "polynomial")
OPT_NEEDS(lr_scheduler_kwargs_timescale, lr_scheduler_type, "inverse_sqrt")
OPT_NEEDS(lr_scheduler_kwargs_min_lr, lr_scheduler_type,
    "cosine_with_min_lr|cosine_warmup_with_min_lr|reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_min_lr_rate, lr_scheduler_type, "cosine_with_min_lr|cosine_warmup_with_min_lr")
OPT_NEEDS(lr_scheduler_kwargs_warmup_lr_rate, lr_scheduler_type, "cosine_warmup_with_min_lr")
OPT_NEEDS(lr_scheduler_kwargs_num_decay_steps, lr_scheduler_type, "warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_num_stable_steps, lr_scheduler_type, "warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_warmup_type, lr_scheduler_type, "warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_decay_type, lr_scheduler_type, "warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_min_lr_ratio, lr_scheduler_type, "warmup_stable_decay")
OPT_NEEDS(lr_scheduler_kwargs_mode, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_factor, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_patience, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_threshold, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_threshold_mode, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_cooldown, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_eps, lr_scheduler_type, "reduce_lr_on_plateau|greedy")
OPT_NEEDS(lr_scheduler_kwargs_warmup, lr_scheduler_type, "greedy")
OPT_NEEDS(lr_scheduler_kwargs_max_lr, lr_scheduler_type, "greedy")
OPT_NEEDS(lr_scheduler_kwargs_reset_start, lr_scheduler_type, "greedy")
OPT_NEEDS(warmup_steps, lr_scheduler_type,
    "linear|cosine|cosine_with_restarts|polynomial|constant_with_warmup|inverse_sqrt|cosine_with_min_lr|"
    "cosine_warmup_with_min_lr|warmup_stable_decay")
OPT_SERVES(warmup_steps, optim, "schedule_free_adamw|schedule_free_sgd")
OPT_SERVES(max_new_tokens, eval_samples, "*")
OPT_SERVES(num_beams, eval_samples, "*")
OPT_SERVES(num_beams, predict_with_generate, "true")
OPT_SERVES(max_new_tokens, predict_with_generate, "true")
OPT_NEEDS(gradient_checkpointing_kwargs_every_n_layers, gradient_checkpointing, "true")
OPT_NEEDS(offload_dir, offload_optimizer, "disk")
OPT_NEEDS(gradient_checkpointing_kwargs_offload, gradient_checkpointing, "true")
OPT_NEEDS(logging_steps, logging_strategy, "steps")
OPT_NEEDS(logging_first_step, logging_strategy, "steps|epoch")
OPT_NEEDS(log_hash, logging_strategy, "steps|epoch")
OPT_EITHER(eval_data, eval_split)
OPT_EITHER(data, text)
OPT_EITHER(data, prompt)
OPT_EITHER(data, chat)
OPT_EITHER(prompt, chat)
OPT_EITHER(output_dir, output)
OPT_EITHER(output, picture)
OPT_NEEDS(temperature, do_sample, "true")
OPT_NEEDS(top_p, do_sample, "true")
OPT_NEEDS(top_k, do_sample, "true")
OPT_NEEDS(text_pair, text, "*")
OPT_NEEDS(data_format, data, "*")
OPT_NEEDS(overwrite_output, output, "*")
OPT_NEEDS(outtype, output, "*")
OPT_NEEDS(eval_strategy, eval_data, "*")
OPT_NEEDS(eval_on_start, eval_data, "*")
OPT_NEEDS(eval_steps, eval_strategy, "steps")
OPT_NEEDS(eval_delay, eval_strategy, "steps|epoch")
OPT_NEEDS(save_steps, save_strategy, "steps")
OPT_NEEDS(save_total_limit, save_strategy, "steps|epoch|best")
OPT_NEEDS(save_only_model, save_strategy, "steps|epoch|best")
OPT_NEEDS(load_best_model_at_end, eval_strategy, "steps|epoch")
OPT_NEEDS(metric_for_best_model, eval_strategy, "steps|epoch")
OPT_NEEDS(greater_is_better, eval_strategy, "steps|epoch")
OPT_NEEDS(early_stopping_patience, eval_strategy, "steps|epoch")
OPT_NEEDS(early_stopping_threshold, early_stopping_patience, "*")
OPT_NEEDS(allow_data_change, resume_from_checkpoint, "*")
OPT_NEEDS(allow_option_change, resume_from_checkpoint, "*")
OPT_NEEDS(require_bitexact, resume_from_checkpoint, "*")

/* ---- The rest of TrainingArguments (transformers 4.57, 5.17 and 5.23). ---- */

OPT_ACCEPTED("average_tokens_across_devices", "true", "always so")
OPT_ACCEPTED("local_rank", "-1", "processes find out which of a machine each is")
OPT_ACCEPTED("use_ipex", "false", "the CPU has kernels of its own here")
OPT_ACCEPTED("fp16_backend", "\"auto\"", "there is one")
OPT_ACCEPTED("half_precision_backend", "\"auto\"", "there is one")
OPT_ACCEPTED("fp16_opt_level", "\"O1\"", "there is one")
OPT_ACCEPTED("gradient_checkpointing_kwargs.use_reentrant", "false", "there is one way to compute layers again")
OPT_ACCEPTED("lr_scheduler_kwargs.verbose", "false", "the log has the learning rate of every step")
OPT_ACCEPTED("full_determinism", "false", "always so, and not slower")
OPT_ACCEPTED("logging_nan_inf_filter", "true", "a loss that is not finite is logged as it is")
OPT_ACCEPTED("log_level", "\"passive\"", "notes are always printed; 2>/dev/null leaves them out")
OPT_ACCEPTED("log_level_replica", "\"warning\"", "there is one process")
OPT_ACCEPTED("log_on_each_node", "true", "there is one process")
OPT_ACCEPTED("include_num_input_tokens_seen", "\"no\"", "tokens are always counted")
OPT_ACCEPTED("include_tokens_per_second", "false", "tokens are always counted")
OPT_ACCEPTED("disable_tqdm", "null", "there is a progress line on a terminal, and plain lines elsewhere")
OPT_ACCEPTED("run_name", "null", "a run is named by its --output-dir")
OPT_ACCEPTED("project", "\"huggingface\"", "nothing is sent to trackio; the log is log.jsonl in the output folder")
OPT_ACCEPTED("trackio_space_id", "\"trackio\"", "nothing is sent to trackio; the log is log.jsonl in the output folder")
OPT_ACCEPTED("trackio_bucket_id", "null", "nothing is sent to trackio; the log is log.jsonl in the output folder")
OPT_ACCEPTED("trackio_static_space_id", "null", "nothing is sent to trackio; the log is log.jsonl in the output folder")
OPT_ACCEPTED("eval_accumulation_steps", "null", "metrics are summed up batch by batch")
OPT_ACCEPTED("batch_eval_metrics", "false", "metrics are summed up batch by batch")
OPT_ACCEPTED("include_for_metrics", "[]", "metrics are summed up batch by batch")
OPT_ACCEPTED("include_inputs_for_metrics", "false", "metrics are summed up batch by batch")
OPT_ACCEPTED("eval_do_concat_batches", "true", "metrics are summed up batch by batch")
OPT_ACCEPTED("eval_use_gather_object", "false", "metrics are summed up batch by batch")
OPT_ACCEPTED("prediction_loss_only", "false", "metrics cost next to nothing")
OPT_ACCEPTED("use_legacy_prediction_loop", "false", "there is one loop")
OPT_ACCEPTED("past_index", "-1", "no model here hands states on from batch to batch")
OPT_ACCEPTED("save_on_each_node", "false", "there is one process")
OPT_ACCEPTED("enable_jit_checkpoint", "false", "SIGTERM always saves")
OPT_ACCEPTED("restore_callback_states_from_checkpoint", "false", "the whole state is always restored")
OPT_ACCEPTED("dataloader_num_workers", "0", "batches are prepared ahead by threads")
OPT_ACCEPTED("dataloader_pin_memory", "true", "batches are prepared ahead by threads")
OPT_ACCEPTED("dataloader_prefetch_factor", "null", "batches are prepared ahead by threads")
OPT_ACCEPTED("dataloader_persistent_workers", "false", "batches are prepared ahead by threads")
OPT_ACCEPTED("dataloader_multiprocessing_context", "null", "batches are prepared ahead by threads")
OPT_ACCEPTED("dataloader_in_order", "true", "the order is always the same")
OPT_ACCEPTED("length_column_name", "\"length\"", "lengths are counted")
OPT_ACCEPTED("remove_unused_columns", "true", "only the columns that are named are read")
OPT_ACCEPTED("torch_empty_cache_steps", "null", "all memory is planned, so there is no cache to empty")
OPT_ACCEPTED("torch_compile", "false", "the step is always compiled")
OPT_ACCEPTED("torch_compile_backend", "null", "the step is always compiled")
OPT_ACCEPTED("torch_compile_mode", "null", "the step is always compiled")
OPT_ACCEPTED("torchdynamo", "null", "the step is always compiled")
OPT_ACCEPTED("jit_mode_eval", "false", "the step is always compiled")
OPT_ACCEPTED("use_liger_kernel", "false", "the kernels are fused already")
OPT_ACCEPTED("liger_kernel_config", "null", "the kernels are fused already")
OPT_ACCEPTED("use_cache", "false", "training keeps no keys and values")
OPT_ACCEPTED("debug", "\"\"", "see 'snug debug'")
OPT_ACCEPTED("skip_memory_metrics", "true", "see 'snug plan'")
OPT_ACCEPTED("do_train", "false", "the command says what is done")
OPT_ACCEPTED("do_eval", "false", "the command says what is done")
OPT_ACCEPTED("do_predict", "false", "the command says what is done")
OPT_ACCEPTED("ray_scope", "\"last\"", "there is no search over options")
OPT_ACCEPTED("_n_gpu", "-1", "--device says where a run computes")
OPT_ACCEPTED("snug_version", "\"" SNUG_VERSION "\"", "a file that another version wrote is read like any other")

OPT_REFUSED("save_safetensors", "true", "weights are always safetensors; leave it out")
OPT_REFUSED("bf16_full_eval", "false", "not there yet; use --dtype, which evaluation follows")
OPT_REFUSED("fp16_full_eval", "false", "not there yet; use --dtype, which evaluation follows")
OPT_REFUSED("gradient_checkpointing_kwargs.*", "null", "an argument of torch.utils.checkpoint; every_n_layers and offload are known")
OPT_REFUSED("lr_scheduler_kwargs.smooth", "false", "not there yet; greedy compares each evaluation's own metric")
OPT_REFUSED("lr_scheduler_kwargs.window_size", "50", "not there yet; greedy compares each evaluation's own metric")
OPT_REFUSED("optim_args.weight_decay", "null", "use --weight-decay")
OPT_REFUSED("optim_target_modules", "null", "GaLore and APOLLO are not there yet; for less memory use --optim adafactor or adamw_8bit")
OPT_REFUSED("neftune_noise_alpha", "null", "noise on embeddings is not there yet; use --hidden-dropout-prob")
OPT_REFUSED("ignore_data_skip", "false", "a resumed run goes on at the very next row, which costs no time; leave it out")
OPT_REFUSED("label_names", "null", "use --label-column")
OPT_REFUSED("ddp_timeout", "1800", "GPUs of one machine train side by side with --gpus, and it has no such settings; leave it out")
OPT_REFUSED("ddp_*", "null", "GPUs of one machine train side by side with --gpus, and it has no such settings; leave it out")
OPT_REFUSED("mp_parameters", "\"\"", "GPUs of one machine train side by side with --gpus, and it has no such settings; leave it out")
OPT_REFUSED("parallelism_config", "null", "GPUs of one machine train side by side with --gpus, and it has no such settings; leave it out")
OPT_REFUSED("accelerator_config",
    "{\"split_batches\":false,\"dispatch_batches\":null,\"even_batches\":true,\"use_seedable_sampler\":true,"
    "\"non_blocking\":false,\"gradient_accumulation_kwargs\":null,\"use_configured_state\":false}",
    "there is no Accelerate here; use --gradient-accumulation-steps and --data-seed")
OPT_REFUSED("fsdp_config",
    "{\"min_num_params\":0,\"xla\":false,\"xla_fsdp_v2\":false,\"xla_fsdp_grad_ckpt\":false}",
    "there is no FSDP; --gpus with --zero-stage 3 shards weights, gradients and states")
OPT_REFUSED("fsdp_min_num_params", "0", "there is no FSDP; --gpus with --zero-stage 3 shards weights, gradients and states")
OPT_REFUSED("fsdp*", "null", "there is no FSDP; --gpus with --zero-stage 3 shards weights, gradients and states")
OPT_REFUSED("hub_strategy", "\"every_save\"", "nothing is uploaded; --output-dir holds a folder that can be")
OPT_REFUSED("hub_token", "\"<HUB_TOKEN>\"", "nothing is uploaded; --output-dir holds a folder that can be")
OPT_REFUSED("hub_*", "null", "nothing is uploaded; --output-dir holds a folder that can be")
OPT_REFUSED("push_to_hub_token", "\"<PUSH_TO_HUB_TOKEN>\"",
    "nothing is uploaded; --output-dir holds a folder that can be")
OPT_REFUSED("push_to_hub*", "null", "nothing is uploaded; --output-dir holds a folder that can be")
OPT_REFUSED("tpu_*", "null", "there is no TPU backend; --device says what there is")
OPT_REFUSED("use_mps_device", "false", "there is no MPS backend; --device says what there is")
/* What Seq2SeqTrainingArguments has besides. */
OPT_REFUSED("sortish_sampler", "false", "there is no such sampler; use --train-sampling-strategy group_by_length")
OPT_REFUSED("generation_max_length", "null", "use --max-new-tokens with one less: the token that begins a target is not counted")
OPT_REFUSED("generation_config", "null", "use --num-beams and --max-new-tokens; the rest is read from the model folder's generation_config.json")

/* clang-format on */

#undef OPT
#undef OPT_SUB
#undef OPT_SECTION
#undef OPT_SPELLING
#undef OPT_VALUE
#undef OPT_LACKING
#undef OPT_NEEDS
#undef OPT_SERVES
#undef OPT_USUAL
#undef OPT_HINT
#undef OPT_EITHER
#undef OPT_ENV
#undef OPT_ACCEPTED
#undef OPT_REFUSED
