/* Adapters that do not fit, by what the command says: options, configurations, models. */
#include "adapters.h"

static const char *rows;

static void refused(int status, const char *says, const char *model, const char *const *more)
{
    remove_tree(join(folder, "none"));
    expect_snug(status, said(),
                ARGS("train", "--model", model, "--train-data", rows, "--output-dir", join(folder, "none"), "--device",
                     "cpu", "--max-steps", "1"),
                more);
    if (!file_has(said(), says)) {
        size_t n;
        fail_msg("\"%s\" is not in: %s", says, read_text(said(), &n));
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const char *bert = fixture("golden/trainer/init");
    refused(2, "--load-in-4bit: weights of 4 bits are not trained; give --use-peft, or --adapter, or leave it out",
            bert, ARGS("--load-in-4bit"));
    refused(2, "--load-in-8bit: weights of 8 bits are not trained; give --use-peft, or --adapter, or leave it out",
            bert, ARGS("--load-in-8bit"));
    refused(2, "--load-in-8bit: serves the same as --load-in-4bit; give one of them", bert,
            ARGS("--use-peft", "--load-in-4bit", "--load-in-8bit"));
    refused(2,
            "--target-modules q_proj: no linear layer of the model has that name; it has query, key, value, dense, "
            "classifier",
            bert, ARGS("--use-peft", "--target-modules", "query,q_proj"));
    refused(2,
            "--target-modules takes experts.0.w1 and not experts.0.w3, which lies in the same parameter, "
            "gate_up_proj; name both or neither",
            fixture("golden/mixtral"), ARGS("--use-peft", "--target-modules", "q_proj,w1"));
    refused(2, "experts.0.up_proj and not experts.0.gate_proj, which lies in the same parameter",
            fixture("golden/qwen3_moe"), ARGS("--use-peft", "--target-modules", "q_proj,up_proj"));
    refused(2, "experts.3.down_proj and not experts.0.down_proj, which lies in the same parameter",
            fixture("golden/qwen3_moe"), ARGS("--use-peft", "--target-modules", ".*(q_proj|experts.3.down_proj)"));
    refused(2,
            "--lora-dropout 0.05: model.layers.0.mlp.experts.gate_up_proj is of experts, whose adapter has no dropout",
            fixture("golden/qwen3_moe"), ARGS("--use-peft", "--target-modules", "all-linear"));
    const char *base = fixture("golden/mixtral_balanced"), *each = "mixtral_each_layer";
    refused(
        3,
        "adapter_config.json: target_modules takes experts.0.w1 and not experts.0.w3, which lies in the same parameter",
        base, ARGS("--adapter", changed(each, "target_modules", json_pack("[s,s,s]", "v_proj", "w1", "w2"))));
    refused(3, "experts.0.w2.lora_A.weight belongs to no layer that adapter_config.json gives an adapter", base,
            ARGS("--adapter", changed(each, "target_modules", json_pack("[s,s,s,s]", "v_proj", "gate", "w1", "w3"))));
    refused(3, "rank_pattern or alpha_pattern tells experts.0.w3 from other layers", base,
            ARGS("--adapter", changed(each, "rank_pattern", json_pack("{s:i}", "w1", 8))));
    refused(3, "rank_pattern or alpha_pattern tells experts.0.w2 from other layers", base,
            ARGS("--adapter", changed(each, "alpha_pattern", json_pack("{s:i}", "layers.1.+w2", 8 * 2))));
    refused(3, "w2.lora_A.weight has shape [4, 24] where adapter_config.json and the model ask for [5, 24]", base,
            ARGS("--adapter", changed(each, "r", json_integer(5))));
    refused(3, "experts.gate_up_proj is of experts, whose adapter has no dropout; write 0", base,
            ARGS("--adapter", changed(each, "lora_dropout", json_real(0.1))));
    refused(2, "--target-parameters experts.up_proj: is neither a linear layer's weight nor experts' of the model",
            fixture("golden/mixtral"),
            ARGS("--use-peft", "--target-parameters", "experts.up_proj", "--lora-dropout", "0"));
    refused(2, "--lora-dropout 0.05: model.layers.0.mlp.experts.down_proj is of experts, whose adapter has no dropout",
            fixture("golden/mixtral"), ARGS("--use-peft", "--target-parameters", "experts.down_proj"));
    refused(2, "--use-dora: model.layers.0.mlp.experts.down_proj is of experts, whose adapter has no lengths",
            fixture("golden/mixtral"),
            ARGS("--use-peft", "--target-parameters", "experts.down_proj", "--lora-dropout", "0", "--use-dora"));
    refused(2, "--lora-dropout 0.1: model.layers.0.mlp.gate is a router of experts, whose adapter has no dropout",
            fixture("golden/qwen3_moe"), ARGS("--use-peft", "--target-modules", "gate", "--lora-dropout", "0.1"));
    refused(3, "has no base_model.model.model.layers.0.mlp.experts.lora_A.weight, which adapter_config.json asks for",
            fixture("golden/qwen3_moe"),
            ARGS("--adapter", changed("qwen3_moe_router", "target_parameters",
                                      json_pack("[s,s]", "gate.weight", "experts.down_proj"))));
    refused(3,
            "target_parameters has experts.up_proj, which is neither a linear layer's weight nor experts' of the model",
            fixture("golden/qwen3_moe"),
            ARGS("--adapter", changed("qwen3_moe_router", "target_parameters", json_pack("[s]", "experts.up_proj"))));
    refused(2, "--modules-to-save head: the model has no module of that name", bert,
            ARGS("--use-peft", "--modules-to-save", "head"));
    refused(2, "--lora-r", bert, ARGS("--lora-r", "4"));
    refused(2, "leave one of them out", bert, ARGS("--use-peft", "--adapter", golden_adapter("bert_qv")));
    refused(3, "is the adapter for another model? This one has query, key", bert,
            ARGS("--adapter", golden_adapter("distilbert_qv")));
    refused(3, "has shape [4, 16] where adapter_config.json and the model ask for [5, 16]", bert,
            ARGS("--adapter", changed("bert_qv", "r", json_integer(5))));
    refused(3, "key.lora_A.weight, which adapter_config.json asks for", bert,
            ARGS("--adapter", changed("bert_qv", "target_modules", json_pack("[s,s]", "query", "key"))));
    refused(3, "belongs to no layer that adapter_config.json gives an adapter", bert,
            ARGS("--adapter", changed("bert_qv", "target_modules", json_pack("[s]", "query"))));
    refused(3, "query.lora_magnitude_vector, which adapter_config.json asks for", bert,
            ARGS("--adapter", changed("bert_qv", "use_dora", json_true())));
    refused(2, "--use-dora: model.layers.0.mlp.gate is a router of experts, whose adapter has no lengths",
            fixture("golden/qwen3_moe"),
            ARGS("--use-peft", "--target-modules", "gate", "--use-dora", "--lora-dropout", "0"));
    refused(3, "lora_bias is true and not supported", bert,
            ARGS("--adapter", changed("bert_qv", "lora_bias", json_true())));
    refused(3, "peft_type is \"LOHA\" and not supported", bert,
            ARGS("--adapter", changed("bert_qv", "peft_type", json_string("LOHA"))));
    refused(3, "has no adapter_config.json", bert, ARGS("--adapter", bert));
}

/* PEFT's adapter of an embedding has tensors of other names. */
static void embeddings_have_no_adapter(void **state)
{
    (void)state;
    const char *with = changed("bert_qv", "r", json_integer(4)), *file = join(with, "adapter_model.safetensors");
    const char from[] = "attention.self.query.lora_A.weight", to[] = "attention.self.qu.lora_embedding_A";
    size_t n;
    char *bytes = read_text(file, &n), *at = memmem(bytes, n, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(from));
    FILE *f = fopen(file, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    free(bytes);
    refused(3, "lora_embedding_A is of embeddings, which have no adapter here; train them by",
            fixture("golden/trainer/init"), ARGS("--adapter", with));
}

static int make_data(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 32, 12, 3, true);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_does_not_fit_is_refused),
                                       cmocka_unit_test(embeddings_have_no_adapter)};
    return cmocka_run_group_tests_name("lora_refused", tests, make_data, close_folder);
}
