/* golden_models.h: the models of tests/golden whose gradients, losses and predictions golden.c compares. */
#ifndef TESTS_RUN_GOLDEN_MODELS_H
#define TESTS_RUN_GOLDEN_MODELS_H

/* A folder of tests/golden, and what its labels are. */
enum { CLASSES, LABELS, NUMBER, TAGS, TOKENS, MASKED, ANSWERS, TARGETS };
static const struct model {
    const char *name;
    int labels;
} models[] = {
    {"bert", CLASSES},
    {"bert_multilabel", LABELS},
    {"bert_regression", NUMBER},
    {"bert_mlm", MASKED},
    {"bert_tags", TAGS},
    {"bert_answers", ANSWERS},
    {"gpt2", TOKENS},
    {"gpt_neox", TOKENS},
    {"gpt_neox_sequential", TOKENS},
    {"gpt_neox_classes", CLASSES},
    {"roberta", CLASSES},
    {"roberta_multilabel", LABELS},
    {"roberta_regression", NUMBER},
    {"roberta_mlm", MASKED},
    {"roberta_tags", TAGS},
    {"roberta_answers", ANSWERS},
    {"xlm_roberta", CLASSES},
    {"distilbert", CLASSES},
    {"distilbert_multilabel", LABELS},
    {"distilbert_regression", NUMBER},
    {"distilbert_mlm", MASKED},
    {"distilbert_tags", TAGS},
    {"distilbert_answers", ANSWERS},
    {"electra", CLASSES},
    {"electra_mlm", MASKED},
    {"electra_tags", TAGS},
    {"electra_answers", ANSWERS},
    {"albert", CLASSES},
    {"albert_mlm", MASKED},
    {"albert_tags", TAGS},
    {"albert_answers", ANSWERS},
    {"modernbert", CLASSES},
    {"modernbert_cls", CLASSES},
    {"modernbert_mlm", MASKED},
    {"modernbert_tags", TAGS},
    {"modernbert_answers", ANSWERS},
    {"mpnet", CLASSES},
    {"mpnet_mlm", MASKED},
    {"mpnet_tags", TAGS},
    {"mpnet_answers", ANSWERS},
    {"gemma2", TOKENS},
    {"gemma3", TOKENS},
    {"llama", TOKENS},
    {"llama_biases", TOKENS},
    {"llama_classes", CLASSES},
    {"mistral", TOKENS},
    {"olmo2", TOKENS},
    {"phi3", TOKENS},
    {"qwen2", TOKENS},
    {"qwen3", TOKENS},
    {"qwen3_regression", NUMBER},
    {"smollm3", TOKENS},
    {"t5", TARGETS},
    {"t5_gated", TARGETS},
    {"mt5", TARGETS},
};
enum { N_MODELS = sizeof models / sizeof *models };

#endif
