"""Records what transformers' Trainer makes of DeepSpeed configurations: which members it says mismatch the arguments, and those that were
"auto" filled in. python deepspeed.py > deepspeed.json (transformers 5.23; DeepSpeed itself is not needed)."""

import json

from accelerate.utils.deepspeed import HfDeepSpeedConfig
from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

FP16 = {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}
AUTO = {
    "fp16": FP16,
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": False,
}
CPU = {"device": "cpu", "pin_memory": True}
STAGE_1 = {"stage": 1}
STAGE_2 = {"stage": 2, "offload_optimizer": CPU, "allgather_partitions": True, "allgather_bucket_size": 5e8, "overlap_comm": True,
           "reduce_scatter": True, "reduce_bucket_size": 5e8, "contiguous_gradients": True, "round_robin_gradients": True}
STAGE_3 = {"stage": 3, "offload_optimizer": CPU, "offload_param": CPU, "overlap_comm": True, "contiguous_gradients": True,
           "sub_group_size": 1e9, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
           "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
           "stage3_gather_16bit_weights_on_model_save": True}
# Of one rank, with every value that the Trainer compares.
ARGS = ("--learning_rate 3e-5 --adam_beta1 0.8 --adam_beta2 0.999 --adam_epsilon 1e-7 --weight_decay 3e-7 --max_grad_norm 0.5 "
        "--warmup_steps 5 --max_steps 40 --per_device_train_batch_size 4 --gradient_accumulation_steps 3 --lr_scheduler_type ")
FIXED = {
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3, "train_batch_size": 12, "gradient_clipping": 0.5,
    "optimizer.params.lr": 3e-5, "optimizer.params.betas": [0.8, 0.999], "optimizer.params.eps": 1e-7,
    "optimizer.params.weight_decay": 3e-7, "scheduler.params.warmup_min_lr": 0, "scheduler.params.warmup_max_lr": 3e-5,
    "scheduler.params.warmup_num_steps": 5, "fp16.enabled": False, "bf16.enabled": False}
OTHER = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "train_batch_size": 32, "gradient_clipping": 1.0,
    "optimizer.params.lr": 5e-5, "optimizer.params.betas": [0.8, 0.99], "optimizer.params.eps": 1e-8,
    "optimizer.params.weight_decay": 0.01, "scheduler.params.warmup_max_lr": 5e-5,
    "scheduler.params.warmup_num_steps": 100, "scheduler.params.total_num_steps": 30}


def with_values(config, values):
    config = json.loads(json.dumps(config))
    for path, value in values.items():
        *objects, name = path.split(".")
        at = config
        for o in objects:
            at = at[o]
        at[name] = value
    return config


def flat(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, prefix + name + ".")
        else:
            yield prefix + name, value


class Trainer(HfDeepSpeedConfig):
    """HfTrainerDeepSpeedConfig, which cannot be made where DeepSpeed is not installed."""

    locals().update({k: v for k, v in vars(HfTrainerDeepSpeedConfig).items() if not k.startswith("__")})

    def __init__(self, config):
        super().__init__(json.loads(json.dumps(config)))
        self._dtype = None
        self.mismatches = []


def record(name, config, more="", schedule="constant_with_warmup"):
    line = ARGS + schedule + more
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(["--output_dir", "out", "--use_cpu", *line.split()])
    trainer = Trainer(config)
    trainer.trainer_config_process(args)
    mismatches = []
    try:
        trainer.trainer_config_finalize(args, type("M", (), {"config": type("C", (), {"hidden_size": 64})}), args.max_steps)
    except ValueError as e:
        mismatches = [x[5:].split("=")[0] for x in str(e).split("\n") if x.startswith("- ds ")]
    auto = {path for path, value in flat(config) if value == "auto"}
    filled = {path: value for path, value in flat(trainer.config) if path in auto}
    return {"name": name, "config": config, "line": line.replace("_", "-").replace("constant-with-warmup", "constant_with_warmup"),
            "mismatches": mismatches, "filled": filled}


def main():
    rows = [record("stage %d" % z["stage"], with_values(AUTO, {"zero_optimization": z})) for z in (STAGE_1, STAGE_2, STAGE_3)]
    rows += [record("mixed precision, " + flag, AUTO, " --" + flag) for flag in ("bf16", "fp16")]
    decay = with_values(AUTO, {"scheduler.type": "WarmupDecayLR", "scheduler.params.total_num_steps": "auto"})
    rows += [record("linear", decay, schedule="linear")]
    rows += [record("fixed", with_values(AUTO, FIXED)), record("a stage alone", {"zero_optimization": STAGE_1})]
    rows += [record(path, with_values(decay if "total" in path else AUTO, {path: value}),
                    schedule="linear" if "total" in path else "constant_with_warmup") for path, value in OTHER.items()]
    rows += [record("bf16.enabled", with_values(AUTO, {"bf16.enabled": False}), " --bf16"),
             record("fp16.enabled", with_values(AUTO, {"fp16.enabled": False}), " --fp16")]
    print(json.dumps({"rows": rows}, indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"'))


main()
