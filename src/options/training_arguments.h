/* training_arguments.h: the names of transformers' TrainingArguments, version 5.17, in its order. What each is here follows
 * from table.h; tests/options compares the names with those recorded. */
#ifndef OPTIONS_TRAINING_ARGUMENTS_H
#define OPTIONS_TRAINING_ARGUMENTS_H

/* clang-format off */
#define TRAINING_ARGUMENTS(NAME) \
    NAME(output_dir) NAME(per_device_train_batch_size) NAME(num_train_epochs) NAME(max_steps) NAME(learning_rate) \
    NAME(lr_scheduler_type) NAME(lr_scheduler_kwargs) NAME(warmup_steps) NAME(optim) NAME(optim_args) \
    NAME(weight_decay) NAME(adam_beta1) NAME(adam_beta2) NAME(adam_epsilon) NAME(optim_target_modules) \
    NAME(gradient_accumulation_steps) NAME(average_tokens_across_devices) NAME(max_grad_norm) \
    NAME(label_smoothing_factor) NAME(bf16) NAME(fp16) NAME(bf16_full_eval) NAME(fp16_full_eval) NAME(tf32) \
    NAME(gradient_checkpointing) NAME(gradient_checkpointing_kwargs) NAME(torch_compile) NAME(torch_compile_backend) \
    NAME(torch_compile_mode) NAME(use_liger_kernel) NAME(liger_kernel_config) NAME(use_cache) \
    NAME(neftune_noise_alpha) NAME(torch_empty_cache_steps) NAME(auto_find_batch_size) NAME(logging_strategy) \
    NAME(logging_steps) NAME(logging_first_step) NAME(log_on_each_node) NAME(logging_nan_inf_filter) \
    NAME(include_num_input_tokens_seen) NAME(log_level) NAME(log_level_replica) NAME(disable_tqdm) NAME(report_to) \
    NAME(run_name) NAME(project) NAME(trackio_space_id) NAME(trackio_bucket_id) NAME(trackio_static_space_id) \
    NAME(eval_strategy) NAME(eval_steps) NAME(eval_delay) NAME(per_device_eval_batch_size) \
    NAME(prediction_loss_only) NAME(eval_on_start) NAME(eval_do_concat_batches) NAME(eval_use_gather_object) \
    NAME(eval_accumulation_steps) NAME(include_for_metrics) NAME(batch_eval_metrics) NAME(save_only_model) \
    NAME(save_strategy) NAME(save_steps) NAME(save_on_each_node) NAME(save_total_limit) NAME(enable_jit_checkpoint) \
    NAME(push_to_hub) NAME(hub_token) NAME(hub_private_repo) NAME(hub_model_id) NAME(hub_strategy) \
    NAME(hub_always_push) NAME(hub_revision) NAME(load_best_model_at_end) NAME(metric_for_best_model) \
    NAME(greater_is_better) NAME(ignore_data_skip) NAME(restore_callback_states_from_checkpoint) \
    NAME(full_determinism) NAME(seed) NAME(data_seed) NAME(use_cpu) NAME(accelerator_config) \
    NAME(parallelism_config) NAME(dataloader_drop_last) NAME(dataloader_num_workers) NAME(dataloader_pin_memory) \
    NAME(dataloader_persistent_workers) NAME(dataloader_prefetch_factor) NAME(dataloader_multiprocessing_context) \
    NAME(dataloader_in_order) NAME(remove_unused_columns) NAME(label_names) NAME(train_sampling_strategy) \
    NAME(length_column_name) NAME(ddp_find_unused_parameters) NAME(ddp_bucket_cap_mb) NAME(ddp_broadcast_buffers) \
    NAME(ddp_static_graph) NAME(ddp_backend) NAME(ddp_timeout) NAME(fsdp) NAME(fsdp_config) NAME(deepspeed) \
    NAME(debug) NAME(skip_memory_metrics) NAME(do_train) NAME(do_eval) NAME(do_predict) NAME(resume_from_checkpoint) \
    NAME(local_rank)
/* clang-format on */

#endif
