/* The files of a tokenizer, good and bad: rows T1-T8 and T13 of the bad inputs, and folders with what
 * transformers makes of them (recorded/record.py). */
#include "files_help.h"

/* Each changes one value of good_json: `at` is its path ("model.vocab.a", "added_tokens.0"; a number one past the end
 * appends), `value` its JSON, NULL to remove it. */
static const struct {
    const char *at, *value;
    int code;
    const char *text; /* a part of the message */
} json_rows[] = {
    /* T2 */
    {"version", "\"2.0\"", 3, "version \"2.0\" is not supported; supported: \"1.0\""},
    {"version", "1.0", 3, "version"},
    {"version", NULL, 0, ""},
    {"model.type", "\"Foo\"", 3, "model.type \"Foo\" is not supported; supported: WordPiece"},
    {"model.type", "\"Unigram\"", 3, "\"unk_token\" in model is not supported"},
    {"model.type", NULL, 0, ""},
    {"model", NULL, 3, "has no \"model\""},
    {"model", "[]", 3, "\"model\" is an array; an object"},
    {"model.extra", "1", 3, "\"extra\" in model is not supported"},
    {"normalizer.type", "\"ByteLevel\"", 3,
     "normalizer.type \"ByteLevel\" is not supported; supported: BertNormalizer, NFC"},
    {"normalizer", "{}", 3, "normalizer.type absent is not supported"},
    {"normalizer", "\"x\"", 3, "\"normalizer\" is \"x\"; an object"},
    {"normalizer.lowercase", NULL, 3, "lowercase"},
    {"normalizer.lowercase", "1", 3, "lowercase"},
    {"normalizer.strip_accents", "\"yes\"", 3, "strip_accents"},
    {"normalizer.form", "1", 3, "\"form\" in normalizer is not supported"},
    {"normalizer", "null", 0, ""},
    {"pre_tokenizer.type", "\"UnicodeScripts\"", 3, "pre_tokenizer.type \"UnicodeScripts\" is not supported"},
    {"pre_tokenizer.pattern", "1", 3, "\"pattern\" in pre_tokenizer is not supported"},
    {"pre_tokenizer", "null", 0, ""},
    {"decoder.type", "\"CTC\"", 3, "decoder.type \"CTC\" is not supported"},
    {"decoder", "null", 0, ""},
    {"comment", "1", 3, "\"comment\" in the file is not supported"},
    {"post_processor.type", "\"Foo\"", 3, "post_processor.type \"Foo\" is not supported"},
    {"post_processor", "null", 0, ""},
    {"post_processor.single", NULL, 3, "post_processor.single is not an array"},
    {"post_processor.single.1", "{\"Foo\":{}}", 3, "a part is neither Sequence nor SpecialToken"},
    {"post_processor.single.1", "7", 3, "a part is neither Sequence nor SpecialToken"},
    {"post_processor.single.1.Sequence.id", "\"C\"", 3, "\"C\" is neither \"A\" nor \"B\""},
    {"post_processor.single.1.Sequence.id", "\"B\"", 3, "single must hold sequence A and not B"},
    {"post_processor.pair.1.Sequence.id", "\"A\"", 3, "pair must hold both sequences"},
    {"post_processor.single.1.Sequence.type_id", "-1", 3, "type_id"},
    {"post_processor.single.1.Sequence.type_id", "256", 3, "type_id is 256; expected an integer from 0 to 255"},
    {"post_processor.single.0.SpecialToken.id", "\"[X]\"", 3, "\"[X]\" is not in its special_tokens"},
    {"post_processor.special_tokens.[CLS].ids.0", "5", 3, "\"[CLS]\" has id 5; the vocabulary has 0 to 4"},
    {"post_processor.special_tokens.[CLS].ids.0", "\"2\"", 3, "\"[CLS]\" has id \"2\""},
    {"post_processor", "{\"type\":\"BertProcessing\",\"sep\":[\"[UNK]\",1],\"cls\":[\"[CLS]\",2]}", 0, ""},
    {"post_processor", "{\"type\":\"BertProcessing\",\"sep\":[\"[UNK]\",1]}", 3, "post_processor.cls is not"},
    {"post_processor", "{\"type\":\"BertProcessing\",\"sep\":[\"x\",9],\"cls\":[\"[CLS]\",2]}", 3, "\"x\" has id 9"},
    /* T3 */
    {"model.unk_token", "\"[FOO]\"", 3, "lacks the unknown token \"[FOO]\""},
    {"model.unk_token", NULL, 3, "unk_token"},
    /* T4 */
    {"model.vocab.a", "7", 3, "token \"a\" has id 7; the ids of 5 tokens must be 0 to 4"},
    {"model.vocab.a", "5", 3, "token \"a\" has id 5"},
    {"model.vocab.a", "-3", 3, "token \"a\" has id -3"},
    {"model.vocab.a", "\"3\"", 3, "token \"a\" has id \"3\""},
    {"model.vocab.a", "3.0", 3, "token \"a\" has id 3.0"},
    {"model.vocab.a", "1e20", 3, "token \"a\" has id"},
    {"model.vocab.a", "4", 3, "tokens \"a\" and \"##a\" both have id 4"},
    {"model.vocab.a", NULL, 3, "token \"##a\" has id 4; the ids of 4 tokens must be 0 to 3"},
    {"model.vocab", "{}", 3, "the vocabulary is empty"},
    {"model.vocab", "[]", 3, "model.vocab is not an object"},
    {"model.max_input_chars_per_word", "-1", 3, "max_input_chars_per_word"},
    {"model.continuing_subword_prefix", "null", 3, "continuing_subword_prefix"},
    /* T6 */
    {"added_tokens", "{}", 3, "\"added_tokens\" is not an array"},
    {"added_tokens", "null", 0, ""},
    {"added_tokens.0", "3", 3, "added_tokens[0] is not an object"},
    {"added_tokens.0.id", "3", 3, "added token \"[UNK]\" has id 3, but in the vocabulary it is 1"},
    {"added_tokens.0.content", "\"new\"", 3, "added token \"new\" has id 1, but the next free id is 5"},
    {"added_tokens.0.content", "\"\"", 3, "an added token is empty"},
    {"added_tokens.0.special", NULL, 3, "special"},
    {"added_tokens.0.lstrip", "0", 3, "lstrip"},
    {"added_tokens.0.score", "0", 3, "\"score\" in added_tokens is not supported"},
    {"added_tokens.1",
     "{\"id\":1,\"content\":\"[UNK]\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":false,"
     "\"special\":true}",
     3, "added token \"[UNK]\" is given twice"},
    {"added_tokens.1",
     "{\"id\":5,\"content\":\"\u0301\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":true,"
     "\"special\":true}",
     3, "is empty once normalised"},
    {"added_tokens.1",
     "{\"id\":5,\"content\":\"\u0301\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":false,"
     "\"special\":true}",
     0, ""},
    {"added_tokens",
     "[{\"id\":3,\"content\":\"a\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":true,"
     "\"special\":true},{\"id\":5,\"content\":\"A\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,"
     "\"normalized\":true,\"special\":true}]",
     3, "added tokens \"a\" and \"A\" are equal once normalised"},
    /* steps other than BERT's */
    {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":7}", 3, "normalizer.normalizers is not an array"},
    {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[7]}", 3, "normalizer.normalizers[0] is not an object"},
    {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a\"},\"content\":\"\"}", 3,
     "\"(a\" is wrong: missing"},
    {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?m)a\"},\"content\":\"\"}", 3,
     "has an option other than (?i)"},
    {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"content\":\"\"}", 3, "has &&"},
    {"normalizer", "{\"type\":\"Replace\",\"pattern\":\"a\",\"content\":\"\"}", 3, "pattern is not {\"String\""},
    {"normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", 3, "not what sentencepiece writes"},
    {"pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Kept\",\"invert\":false}", 3,
     "pre_tokenizer.behavior \"Kept\" is not supported; supported: Removed, Isolated"},
    {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", 3, "one character was expected"},
    {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}", 3,
     "always, first, never"},
    {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}", 3,
     "model.dropout 0.1 is not supported"},
    {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\"]]}", 3,
     "model.merges[0]: \"a\" and \"b\""},
    {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0}}", 3, "model.merges is not an array"},
    {"model", "{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":[[\"a\",0.5]]}", 3, "unk_id is 2"},
    {"model", "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}", 3, "model.vocab[0] is an array"},
    /* T13 */
    {"truncation", "{\"max_length\":8,\"strategy\":\"LongestFirst\",\"stride\":0}", 0, "truncation is not used"},
    {"truncation", "{\"direction\":\"Up\",\"max_length\":8}", 3, "truncation.direction \"Up\" is not supported"},
    {"padding", "{\"strategy\":{\"Fixed\":128}}", 0, "padding is not used; --max-length decides"},
    {"padding", "128", 3, "\"padding\" is 128; an object"},
};

static bool has_note(const struct tokenizer *t, const char *part)
{
    for (size_t i = 0; tokenizer_note(t, i); i++)
        if (strstr(tokenizer_note(t, i), part))
            return true;
    return tokenizer_unused(t) && strstr(tokenizer_unused(t), part);
}

/* What was wrong with a result, or NULL. */
static const char *judge(int code, struct tokenizer *t, const struct snug_err *e, const char *file, int want,
                         const char *part)
{
    static char what[512];
    const char *wrong = NULL;
    if (code != want)
        wrong = code ? e->text : "accepted";
    else if (code && (!strstr(e->text, part) || !strstr(e->text, file) || strlen(e->text) > 225))
        wrong = e->text;
    else if (!code && *part && !has_note(t, part))
        wrong = "no such note";
    if (wrong)
        snprintf(what, sizeof what, "wanted %d \"%s\", got: %s", want, part, wrong);
    tokenizer_close(t);
    return wrong ? what : NULL;
}

static void bad_tokenizer_json(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof json_rows / sizeof *json_rows; i++) {
        struct tokenizer *t;
        struct snug_err e;
        char *json = changed(json_rows[i].at, json_rows[i].value);
        int code = open_folder((const struct file[]){{"tokenizer.json", json}, {NULL, NULL}}, &t, &e);
        const char *problem = judge(code, t, &e, "m/tokenizer.json: ", json_rows[i].code, json_rows[i].text);
        if (problem)
            printf("%s = %s: %s\n", json_rows[i].at, json_rows[i].value ? json_rows[i].value : "absent", problem);
        wrong += problem != NULL;
        free(json);
    }
    assert_int_equal(wrong, 0);
}

#define SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

static const struct {
    const char *name, *content, *name2, *content2;
    int code;
    const char *text;
} folder_rows[] = {
    /* T1 */
    {"other.txt", "", NULL, NULL, 3,
     "m: no tokenizer: neither tokenizer.json nor vocab.txt nor a sentencepiece model is"},
    {"vocab.json", "{}", NULL, NULL, 3, "m: no tokenizer"},
    {"vocab.json", "{}", "merges.txt", "", 3, "m/vocab.json: <|endoftext|> is missing; add it"},
    {"vocab.json", "{\"<|endoftext|>\":0,\"a\":1}", "merges.txt", "a b\n", 3,
     "model.merges[0]: \"a\" and \"b\", or both"},
    {"vocab.json", "{\"<|endoftext|>\":0,\"a\":1}", "merges.txt", "#version: 0.2\na\n", 3, "merges[0] is not a pair"},
    {"vocab.json", "{\"<|endoftext|>\":0,\"a\":2}", "merges.txt", "", 3, "token \"a\" has id 2"},
    {"spm.model", "", NULL, NULL, 3, "m/spm.model: model_type (none) is not read from a sentencepiece model; write a"},
    {"spiece.model", "", "tokenizer_config.json", "{\"tokenizer_class\":\"XLNetTokenizer\"}", 3,
     "m/spiece.model: tokenizer_class XLNetTokenizer is not read from a sentencepiece model"},
    {"spiece.model", "", "config.json", "{\"model_type\":\"t5\"}", 3,
     "m/spiece.model: not what sentencepiece writes; is the file complete?"},
    {"tokenizer.model", "\x0A\x03\x0A\x01x", "config.json", "{\"model_type\":\"t5\"}", 3,
     "has no <unk>; name the token"},
    {"tokenizer.model", "\x0A\x03\x0A\x01x\x0A\x03\x0A\x01x", "config.json", "{\"model_type\":\"t5\"}", 3,
     "token \"x\" is piece 0 and 1; remove one"},
    {"tokenizer.model", "\x0A\x03\x0A\x01\xff", "config.json", "{\"model_type\":\"t5\"}", 3, "piece 0 is no text"},
    {"tokenizer.model", "\x0A\x03\x0A\x02x", "config.json", "{\"model_type\":\"t5\"}", 3,
     "not what sentencepiece writes"},
    {"tokenizer.model", "\x0A\x03\x0A\x01x\x12\x02\x18\x02", "config.json", "{\"model_type\":\"t5\"}", 3,
     "holds BPE, but T5Tokenizer wants Unigram; name the class"},
    {"tokenizer.model", "\x0A\x03\x0A\x01x\x12\x02\x18\x04", "config.json", "{\"model_type\":\"t5\"}", 3,
     "is a model of characters; Unigram and BPE are supported"},
    {"tokenizer.model", "\x0A\x03\x0A\x01x", "tokenizer_config.json",
     "{\"tokenizer_class\":\"T5Tokenizer\",\"unk_token\":null}", 3,
     "m/tokenizer_config.json: unk_token is null, but T5Tokenizer needs it"},
    /* T2 */
    {"tokenizer.json", "", NULL, NULL, 3, "m/tokenizer.json"},
    {"tokenizer.json", "{\"version\":\"1.0\",}", NULL, NULL, 3, "m/tokenizer.json:1:"},
    {"tokenizer.json", "[]", NULL, NULL, 3, "m/tokenizer.json"},
    {"tokenizer.json", "version https://git-lfs.github.com/spec/v1\n", NULL, NULL, 3, "m/tokenizer.json"},
    /* T3 */
    {"vocab.txt", "", NULL, NULL, 3, "m/vocab.txt: the vocabulary is empty"},
    {"vocab.txt", "\n\n\n", NULL, NULL, 3, "m/vocab.txt: [UNK] is missing"},
    {"vocab.txt", "[PAD]\n[CLS]\n[SEP]\n", NULL, NULL, 3, "m/vocab.txt: [UNK] is missing"},
    {"vocab.txt", "[PAD]\n[UNK]\n[SEP]\n", NULL, NULL, 3, "m/vocab.txt: [CLS] is missing"},
    {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n", NULL, NULL, 3, "m/vocab.txt: [SEP] is missing"},
    {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n", NULL, NULL, 3, "m/vocab.txt: [PAD] is missing"},
    {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", NULL, NULL, 0, "has no mask_token \"[MASK]\""},
    {"vocab.txt", SPECIALS "a\nb\na\n", NULL, NULL, 3, "m/vocab.txt:8: token \"a\" is also on line 6; remove one"},
    {"vocab.txt", SPECIALS "a\nb\na \n", NULL, NULL, 3, "m/vocab.txt:8: token \"a\" is also on line 6"},
    {"vocab.txt", "\xEF\xBB\xBF" SPECIALS, NULL, NULL, 3, "m/vocab.txt:1: begins with a byte order mark"},
    {"vocab.txt", SPECIALS "a\n\xff\n", NULL, NULL, 3, "m/vocab.txt:7: the line holds byte 0xFF"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"cls_token\":\"<s>\"}", 3, "<s> is missing; add it, or name"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"pad_token\":null}", 3, "pad_token in tokenizer_config.json"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"cls_token\":7}", 3, "cls_token is 7; a token was expected"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"tokenizer_class\":\"LukeTokenizer\"}", 3,
     "tokenizer_class LukeTokenizer is not read from a vocab.txt"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"tokenizer_class\":\"DistilBertTokenizerFast\"}", 0, ""},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"do_lower_case\":\"yes\"}", 3,
     "m/tokenizer_config.json: do_lower_case"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{", 3, "m/tokenizer_config.json:1:"},
    {"vocab.txt", SPECIALS, "special_tokens_map.json", "[]", 3, "m/special_tokens_map.json"},
    /* T6 */
    {"vocab.txt", SPECIALS, "added_tokens.json", "{\"new\":5}", 3, "m/added_tokens.json: token \"new\" is not in"},
    {"vocab.txt", SPECIALS, "added_tokens.json", "{\"[MASK]\":4}", 0, ""},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"7\":{\"content\":\"new\"}}}", 3,
     "added token \"new\" has id 7, but the next free id is 5"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"new\"}}}", 3,
     "added_tokens_decoder has the key \"x\""},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"5\":7}}", 3, "a token was expected"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"added_tokens_decoder\":[]}", 3,
     "added_tokens_decoder is not an object"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"additional_special_tokens\":[7]}", 3, "a token was expected"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"split_special_tokens\":true}", 3, "split_special_tokens"},
    {"vocab.txt", SPECIALS, "tokenizer_config.json", "{\"truncation_side\":\"top\"}", 3, "truncation_side is \"top\""},
    {"tokenizer.json", good_json, "tokenizer_config.json", "{\"sep_token\":\"[SEP]\"}", 3,
     "m/tokenizer_config.json: sep_token \"[SEP]\" is missing in the vocabulary of m/tokenizer.json"},
    {"tokenizer.json", good_json, "special_tokens_map.json", "{\"mask_token\":\"[MASK]\"}", 0,
     "has no mask_token \"[MASK]\""},
    /* T8 */
    {"tokenizer.json", good_json, "tokenizer_config.json", "{\"do_lower_case\":false}", 0,
     "do_lower_case false wins over lowercase true in tokenizer.json"},
    {"tokenizer.json", good_json, "tokenizer_config.json", "{\"do_lower_case\":true,\"strip_accents\":true}", 0,
     "strip_accents true wins over strip_accents null"},
    {"tokenizer.json", good_json, "tokenizer_config.json", "{\"tokenize_chinese_chars\":false}", 0,
     "tokenize_chinese_chars false wins over handle_chinese_chars true"},
};

static void bad_folders(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof folder_rows / sizeof *folder_rows; i++) {
        struct tokenizer *t;
        struct snug_err e;
        const struct file files[] = {{folder_rows[i].name, folder_rows[i].content},
                                     {folder_rows[i].name2, folder_rows[i].content2},
                                     {NULL, NULL}};
        int code = open_folder(files, &t, &e);
        const char *problem = judge(code, t, &e, "m", folder_rows[i].code, folder_rows[i].text);
        if (problem)
            printf("%s, %s: %s\n", folder_rows[i].content, folder_rows[i].content2, problem);
        wrong += problem != NULL;
    }
    assert_int_equal(wrong, 0);
}

static void a_nul_in_vocab_txt_is_refused(void **state)
{
    (void)state;
    static const char vocab[] = SPECIALS "a\0b\n";
    const struct memory_file file = {"m/vocab.txt", vocab, sizeof vocab - 1};
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err e;
    memory_io_init(&m, &file, 1);
    assert_int_equal(tokenizer_open(&m.io, "m", &t, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "m/vocab.txt:6: the line holds byte 0x00"));
}

/* A tokenizer.json that keeps upper case, and nothing beside it. */
static void upper_case_without_configuration_is_noted(void **state)
{
    (void)state;
    struct tokenizer *t;
    struct snug_err e;
    char *json = changed("normalizer.lowercase", "false");
    assert_int_equal(open_folder((const struct file[]){{"tokenizer.json", json}, {NULL, NULL}}, &t, &e), 0);
    assert_true(has_note(t, "keeps upper case; transformers would not"));
    tokenizer_close(t);
    const struct file stated[] = {
        {"tokenizer.json", json}, {"tokenizer_config.json", "{\"do_lower_case\":false}"}, {NULL, NULL}};
    assert_int_equal(open_folder(stated, &t, &e), 0);
    assert_null(tokenizer_note(t, 0));
    tokenizer_close(t);
    free(json);
}

static void the_unknown_token_is_the_one_of_the_model(void **state)
{
    (void)state;
    struct tokenizer *t;
    struct snug_err e;
    char *json = changed("model.unk_token", "\"a\"");
    assert_int_equal(open_folder((const struct file[]){{"tokenizer.json", json}, {NULL, NULL}}, &t, &e), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_UNK), 3);
    assert_int_equal(tokenizer_special(t, TOKEN_PAD), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_SEP), -1);
    tokenizer_close(t);
    free(json);
}

static void check_folders(const char *recorded, int want_rows)
{
    char path[4096], *line = NULL;
    size_t cap = 0;
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/%s", getenv("SNUG_SOURCE"), recorded);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct token_buf b = {0};
    int rows = 0, differ = 0;
    for (; getline(&line, &cap, f) > 0; rows++) {
        json_t *row = json_loads(line, 0, NULL), *ids = json_object_get(row, "ids"), *content;
        const char *name, *text = json_string_value(json_object_get(row, "text"));
        struct file files[MOST_FILES] = {{NULL, NULL}};
        size_t n = 0;
        json_object_foreach(json_object_get(row, "files"), name, content) files[n++] =
            (struct file){name, json_string_value(content)};
        struct tokenizer *t;
        struct snug_err e = {0};
        int code = open_folder(files, &t, &e);
        if (!code)
            code = tokenizer_encode(t, text, strlen(text), NULL, 0,
                                    json_integer_value(json_object_get(row, "max_length")), &b, &e);
        bool same = !code && json_array_size(ids) == b.n;
        for (size_t i = 0; same && i < b.n; i++)
            same = json_integer_value(json_array_get(ids, i)) == b.ids[i];
        if (!same)
            printf("row %d, %s differs: %s", rows, e.text, line);
        differ += !same;
        tokenizer_close(t);
        json_decref(row);
    }
    assert_int_equal(rows, want_rows);
    assert_int_equal(differ, 0);
    token_buf_free(&b);
    free(line);
    fclose(f);
}

static void folders_are_read_as_transformers_reads_them(void **state)
{
    (void)state;
    check_folders("folders.jsonl", 45);
    check_folders("vocab_json.jsonl", 11);
    check_folders("vocab_esm.jsonl", 18);
}

/* Whichever call fails, no file is passed over in silence. */
static void every_file_call_may_fail(void **state)
{
    (void)state;
    const struct memory_file files[] = {{"m/tokenizer.json", good_json, sizeof good_json - 1},
                                        {"m/vocab.txt", SPECIALS, sizeof SPECIALS - 1},
                                        {"m/tokenizer_config.json", "{}", 2}};
    int code = -1, k = 0;
    while (code) {
        struct memory_io m;
        struct tokenizer *t;
        struct snug_err e;
        memory_io_init(&m, files, 3);
        m.fail_call = ++k;
        code = tokenizer_open(&m.io, "m", &t, &e);
        assert_int_equal(m.open_files, 0);
        tokenizer_close(t);
        if (code)
            assert_int_equal(code, SNUG_ERR_IO);
        if (!code)
            assert_true(k > m.calls);
    }
    assert_true(k > 6); /* two files, each opened, measured and read */
}

static int forbidden_stat(const struct io *io, const char *path, struct stat *st)
{
    (void)io, (void)path, (void)st;
    errno = EACCES;
    return -1;
}

static void a_file_that_cannot_be_looked_for_is_not_absent(void **state)
{
    (void)state;
    const struct memory_file file = {"m/vocab.txt", SPECIALS, sizeof SPECIALS - 1};
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err e;
    memory_io_init(&m, &file, 1);
    m.io.stat = forbidden_stat;
    assert_int_equal(tokenizer_open(&m.io, "m", &t, &e), SNUG_ERR_IO);
    assert_non_null(strstr(e.text, "m/tokenizer.json: cannot look for it: Permission denied"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_tokenizer_json),
        cmocka_unit_test(bad_folders),
        cmocka_unit_test(a_nul_in_vocab_txt_is_refused),
        cmocka_unit_test(upper_case_without_configuration_is_noted),
        cmocka_unit_test(the_unknown_token_is_the_one_of_the_model),
        cmocka_unit_test(folders_are_read_as_transformers_reads_them),
        cmocka_unit_test(every_file_call_may_fail),
        cmocka_unit_test(a_file_that_cannot_be_looked_for_is_not_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
