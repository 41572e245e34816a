/* Downloads from a hub of our own: what lies in the cache afterwards, who was told the token, what a bad network leaves behind. */
#include "world.h"

#include <errno.h>
#include <unistd.h>

enum { SHARD = 5000, OTHER_SHARD = 15000 };

static void test_layout(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    setenv("HF_TOKEN", " hf_secret\n", 1);
    expect(&w, 0, "");
    expect_model(&w);
    expect_link(&w, CACHE "/snapshots/" COMMIT "/config.json", "../../blobs/" CONFIG_TAG);
    expect_link(&w, CACHE "/snapshots/" COMMIT "/model.safetensors", "../../blobs/" WEIGHTS_TAG);
    expect_bytes(at(&w, CACHE "/refs/main"), COMMIT, 40);
    assert_int_equal(names_in(at(&w, CACHE "/blobs")), 3); /* neither README.md nor pytorch_model.bin */
    assert_int_equal(names_in(at(&w, CACHE "/snapshots/" COMMIT)), 3);
    assert_int_equal(w.total, WEIGHTS + CONFIG + TOKENS);
    assert_int_equal(w.done, w.total);
    assert_int_equal(w.server.leaked, 0);
    assert_int_equal(w.server.elsewhere, 1);
    assert_int_equal(w.server.tokens, 1 + 3 + 3); /* the list; what each file is; each file */

    int heads = w.server.heads, bodies = w.server.bodies;
    expect(&w, 0, "");
    expect_model(&w);
    assert_string_equal(w.notes, "");
    assert_int_equal(w.server.lists, 2);
    assert_int_equal(w.server.heads, heads);
    assert_int_equal(w.server.bodies, bodies);
    close_world(&w);
}

static void test_token_of_a_file(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    write_text(w.cache, "token", "hf_secret\n");
    expect(&w, 0, "");
    assert_int_equal(w.server.tokens, 7);
    assert_int_equal(w.server.leaked, 0);
    setenv("HF_TOKEN", "two\nlines", 1);
    expect(&w, SNUG_ERR_USAGE, "HF_TOKEN: a token has letters, digits and underscores only; set it anew");
    close_world(&w);
}

/* Only what tells the shape of a model, then all. */
static void test_settings(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    assert_int_equal(get(&w, "org/model@" COMMIT, HUB_SETTINGS), 0);
    assert_int_equal(names_in(w.paths[0]), 2);
    assert_int_equal(w.server.elsewhere, 0);
    assert_false(io_exists(&io_posix, at(&w, CACHE "/refs")));
    expect(&w, 0, "");
    expect_model(&w);
    assert_int_equal(w.server.bodies, 3);
    close_world(&w);
}

/* Under its final name a file is whole, at every moment at which a connection ends. */
static void test_cuts(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    srand(1);
    int stopped = 0;
    for (int round = 0; w.server.cut < 500; round++) {
        w.server.cuts = 20;
        w.server.no_ranges = round % 4 == 3;
        w.server.cut_at_once = round % 2 == 1;
        int code = get(&w, "org/model", HUB_MODEL);
        bool there = io_exists(&io_posix, at(&w, CACHE "/blobs/" WEIGHTS_TAG));
        if (there)
            expect_bytes(at(&w, CACHE "/blobs/" WEIGHTS_TAG), weights, WEIGHTS);
        if (code) {
            assert_int_equal(code, SNUG_ERR_IO);
            assert_non_null(strstr(w.err.text, "was cut off"));
            assert_false(io_exists(&io_posix, at(&w, CACHE "/refs/main")));
            assert_false(io_exists(&io_posix, at(&w, CACHE "/snapshots")));
            stopped++;
            continue;
        }
        assert_true(there);
        expect_model(&w);
        remove_tree(at(&w, CACHE));
    }
    assert_true(stopped > 5);
    assert_true(w.server.parts > 50);
    close_world(&w);
}

static void test_goes_on(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    w.stop_after = 5; /* the two small files are whole by then */
    expect(&w, SNUG_STOPPED, "stopped; what was downloaded is kept, and the same command goes on from there");
    w.stop.signal = 0;
    w.stop_after = 0;
    assert_int_equal(names_in(at(&w, CACHE "/blobs")), 3);
    assert_true(io_exists(&io_posix, at(&w, CACHE "/blobs/" WEIGHTS_TAG ".incomplete")));
    int parts = w.server.parts, bodies = w.server.bodies;
    expect(&w, 0, "");
    expect_model(&w);
    assert_int_equal(w.server.bodies - bodies <= 1, 1);
    assert_true(w.server.bodies == bodies || w.server.parts == parts + 1);
    assert_int_equal(names_in(at(&w, CACHE "/blobs")), 3);
    close_world(&w);
}

static void test_wrong_files(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    w.server.wrong_byte = true;
    expect(&w, SNUG_ERR_INPUT,
           "org/model:model.safetensors: its SHA-256 is 1a5e899546b84457…, and the hub says 0c61ba80779f4ed4…; what "
           "came is removed, "
           "try again");
    assert_int_equal(count_names(at(&w, CACHE "/blobs"), WEIGHTS_TAG), 0);
    w.server.wrong_byte = false;
    w.server.more = -7;
    expect(&w, SNUG_ERR_INPUT,
           "org/model:model.safetensors: has 69993 bytes, and the hub says 70000; what came is removed, try again");
    assert_int_equal(count_names(at(&w, CACHE "/blobs"), WEIGHTS_TAG), 0);
    w.server.more = 1;
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT);
    assert_non_null(strstr(w.err.text, "and the hub says 70000; what came is removed"));
    assert_int_equal(count_names(at(&w, CACHE "/blobs"), WEIGHTS_TAG), 0);
    assert_false(io_exists(&io_posix, at(&w, CACHE "/snapshots")));
    w.server.more = 0;
    struct served wrong[5];
    memcpy(wrong, model, sizeof wrong);
    wrong[0].bytes = "{\"model_type\": \"dert\"}\n";
    w.server.files = wrong;
    remove_tree(at(&w, CACHE));
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT);
    assert_non_null(strstr(w.err.text, "org/model:config.json: its SHA-1 is "));
    wrong[0] = (struct served){"config.json", CONFIG_TEXT, "../../../evil", CONFIG, false};
    expect(&w, SNUG_ERR_IO, "org/model:config.json: HUB says nothing of what is in it (no ETag); check HF_ENDPOINT");
    close_world(&w);
}

static void refuse(struct world *w, int status, const char *error, int retry_after, int times)
{
    w->server.status = status;
    w->server.error = error;
    w->server.retry_after = retry_after;
    w->server.times = times;
}

static void test_refusals(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    refuse(&w, 401, "RepoNotFound", -1, 1);
    expect(&w, SNUG_ERR_INPUT,
           "org/model: no such path here, and no public model of that name on HUB (401); check the name, or set "
           "HF_TOKEN for a private "
           "one");
    refuse(&w, 401, "GatedRepo", -1, 1);
    expect(&w, SNUG_ERR_IO,
           "org/model: is given to those who accept its licence; accept it at HUB/org/model, and set HF_TOKEN");
    refuse(&w, 404, "RepoNotFound", -1, 1);
    expect(&w, SNUG_ERR_INPUT, "org/model: no such path here, and no such model on HUB (404); check the name");
    refuse(&w, 404, "RevisionNotFound", -1, 1);
    expect(&w, SNUG_ERR_INPUT,
           "org/model: org/model has no revision main; give a branch, a tag or a commit that is there");
    setenv("HF_TOKEN", "hf_secret", 1);
    refuse(&w, 401, NULL, -1, 1);
    expect(&w, SNUG_ERR_IO, "org/model: HUB does not accept the token (401); check HF_TOKEN, or the token in HF_HOME");
    refuse(&w, 403, "GatedRepo", -1, 1);
    expect(&w, SNUG_ERR_IO,
           "org/model: is given to those who accept its licence; accept it at HUB/org/model, with the account of "
           "HF_TOKEN");
    refuse(&w, 403, NULL, -1, 1);
    expect(&w, SNUG_ERR_IO,
           "org/model: HUB gives no access (403); the token of HF_TOKEN may lack the right to read it");
    refuse(&w, 418, NULL, -1, 1);
    expect(&w, SNUG_ERR_IO, "org/model: HUB answers with status 418; check HF_ENDPOINT");
    assert_false(io_exists(&io_posix, at(&w, CACHE)));
    close_world(&w);
}

static void test_busy(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    refuse(&w, 429, NULL, 1, 1);
    expect(&w, 0, "");
    assert_non_null(strstr(w.notes, "answers with status 429; asking again in 1 s\n"));
    remove_tree(at(&w, CACHE));
    refuse(&w, 503, NULL, -1, 5);
    expect(&w, 0, "");
    expect_model(&w);
    remove_tree(at(&w, CACHE));
    refuse(&w, 502, NULL, -1, 100);
    expect(&w, SNUG_ERR_IO, "org/model: HUB fails with status 502; try again later");
    assert_int_equal(w.server.times, 100 - 6);
    refuse(&w, 429, NULL, 9999, 100);
    expect(&w, SNUG_ERR_IO, "org/model: HUB takes no more requests for 9999 s (429); come back then, or set HF_TOKEN");
    assert_int_equal(w.server.times, 99);
    close_world(&w);
}

static void test_offline(void **state)
{
    (void)state;
    struct world w;
    char text[512], endpoint[64];
    open_world(&w);
    setenv("HF_HUB_OFFLINE", "1", 1);
    snprintf(text, sizeof text,
             "org/model: no such path here, and nothing of it is in %s; unset HF_HUB_OFFLINE to download it", w.cache);
    expect(&w, SNUG_ERR_INPUT, text);
    unsetenv("HF_HUB_OFFLINE");
    assert_int_equal(get(&w, "org/model", HUB_SETTINGS), 0);
    setenv("HF_HUB_OFFLINE", "1", 1);
    snprintf(text, sizeof text,
             "org/model: no such path here, and not all of it is in %s; unset HF_HUB_OFFLINE to download it", w.cache);
    expect(&w, SNUG_ERR_INPUT, text);
    unsetenv("HF_HUB_OFFLINE");
    expect(&w, 0, "");
    int lists = w.server.lists;
    setenv("HF_HUB_OFFLINE", "1", 1);
    expect(&w, 0, "");
    expect_model(&w);
    assert_int_equal(w.server.lists, lists);

    /* A hub that is not there: what is in the cache serves, and a line says so. */
    unsetenv("HF_HUB_OFFLINE");
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", 1);
    setenv("HF_ENDPOINT", endpoint, 1);
    expect(&w, 0, "");
    expect_model(&w);
    assert_string_equal(
        w.notes, "org/model: http://127.0.0.1:1 does not answer; taking what the cache has, commit 0123456789ab\n");
    remove_tree(at(&w, CACHE));
    expect(&w, SNUG_ERR_IO,
           "org/model: no such path here, and http://127.0.0.1:1 cannot be reached (Couldn't connect to server); check "
           "the path or the network");
    close_world(&w);
}

static const char index_text[] = "{\"weight_map\": {\"a\": \"model-1.safetensors\", \"b\": \"model-2.safetensors\", "
                                 "\"c\": \"model-1.safetensors\"}}\n";

static void test_shards(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    static const char outside[] = "{\"weight_map\": {\"a\": \"../x\"}}\n";
    struct served files[] = {{"config.json", CONFIG_TEXT, CONFIG_TAG, CONFIG, false},
                             {"model.safetensors.index.json", index_text, "ed4a4c217f5baa5dc409ad142b3f32e90015d146",
                              sizeof index_text - 1, false},
                             {"model-1.safetensors", weights,
                              "b06694d2eb70f4475c568d0df2dc134e6d17e19cc6e4370119547a49e403453b", SHARD, true},
                             {"model-2.safetensors", weights + SHARD,
                              "acd72f6688f0e76700b03841f122559d6e8d9afc51451f28036705d751cf8639", OTHER_SHARD, true},
                             {"model-3.safetensors", weights, WEIGHTS_TAG, WEIGHTS, true}};
    w.server.files = files;
    expect(&w, 0, "");
    assert_int_equal(names_in(w.paths[0]), 4);
    expect_bytes(in(w.paths[0], "model-1.safetensors"), weights, SHARD);
    expect_bytes(in(w.paths[0], "model-2.safetensors"), weights + SHARD, OTHER_SHARD);
    expect_bytes(in(w.paths[0], "model.safetensors.index.json"), index_text, sizeof index_text - 1);
    setenv("HF_HUB_OFFLINE", "1", 1);
    expect(&w, 0, "");
    unlink(in(w.paths[0], "model-2.safetensors"));
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT);
    unsetenv("HF_HUB_OFFLINE");
    w.server.n_files = 3;
    expect(&w, SNUG_ERR_INPUT,
           "org/model: its index names the shard model-2.safetensors, which is not there; tell its author, or give "
           "another revision");
    remove_tree(at(&w, CACHE));
    files[1] = (struct served){"model.safetensors.index.json", outside, "880f929deaa2ddda65d6606d3757df8b57fe5648",
                               sizeof outside - 1, false};
    expect(&w, SNUG_ERR_INPUT,
           "org/model: its index names the shard ../x, which is not there; tell its author, or give another revision");
    close_world(&w);
}

static void test_rows(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    static const struct served files[] = {
        {"data/train.csv", "text,label\na,x\n", "0ebf2021f70b1bb8bd3927a7a2eb77bbb853acd0", 15, false},
        {"data/test.csv", "text,label\nb,y\n", "b66e7a0a3cea246dccb956a4179862085ffcfd5d", 15, false},
        {"README.md", "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", 0, false}};
    w.server.files = files;
    w.server.n_files = 3;
    w.server.dataset = true;
    assert_int_equal(get(&w, "org/model", HUB_TRAIN_ROWS), 0);
    assert_int_equal(w.n, 1);
    assert_string_equal(w.paths[0], at(&w, "datasets--org--model/snapshots/" COMMIT "/data/train.csv"));
    expect_link(&w, "datasets--org--model/snapshots/" COMMIT "/data/train.csv",
                "../../../blobs/0ebf2021f70b1bb8bd3927a7a2eb77bbb853acd0");
    expect_bytes(w.paths[0], "text,label\na,x\n", 15);
    assert_int_equal(get(&w, "org/model", HUB_EVAL_ROWS), 0);
    expect_bytes(w.paths[0], "text,label\nb,y\n", 15);
    assert_int_equal(get(&w, "org/model:README.md", HUB_TRAIN_ROWS), 0); /* an empty file */
    expect_bytes(w.paths[0], "", 0);
    assert_int_equal(get(&w, "org/model:data/none.csv", HUB_TRAIN_ROWS), SNUG_ERR_INPUT);
    assert_string_equal(
        w.err.text,
        "org/model:data/none.csv: org/model has no such file; look at the names of its files, upper and lower "
        "case count");
    close_world(&w);
}

static void test_foreign_answers(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    w.server.list = "<html>";
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT);
    w.server.list = "{\"sha\": \"../../x\", \"siblings\": []}";
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT);
    assert_non_null(strstr(w.err.text, "is no answer of a hub"));
    w.server.list =
        "{\"sha\": \"" COMMIT "\", \"siblings\": [{\"rfilename\": \"../config.json\"}, {\"rfilename\": 3}, 4]}";
    expect(&w, SNUG_ERR_INPUT, "org/model: has no config.json; give the repository of a transformers model");
    close_world(&w);
}

static ssize_t no_room(const struct io *io, int fd, const void *bytes, size_t n, off_t at)
{
    (void)io;
    if (at + (off_t)n > 20000) {
        errno = ENOSPC;
        return -1;
    }
    return io_posix.pwrite(&io_posix, fd, bytes, n, at);
}

static int small_disk(const struct io *io, const char *path, struct statfs *fs)
{
    (void)io, (void)path;
    *fs = (struct statfs){.f_bsize = 4096, .f_bavail = 10};
    return 0;
}

static void test_full_disk(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    w.io.pwrite = no_room;
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_IO);
    assert_non_null(strstr(w.err.text, "No space left on device"));
    assert_false(io_exists(&io_posix, at(&w, CACHE "/blobs/" WEIGHTS_TAG)));
    w.io = io_posix;
    w.io.statfs = small_disk;
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_IO);
    assert_non_null(strstr(w.err.text, " are to come, and 40.0 KiB are free at "));
    w.io = io_posix;
    expect(&w, 0, "");
    expect_model(&w);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),    cmocka_unit_test(test_token_of_a_file),
        cmocka_unit_test(test_settings),  cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_goes_on),   cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_busy),
        cmocka_unit_test(test_offline),   cmocka_unit_test(test_shards),
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_foreign_answers),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests_name("hub/download", tests, open_folder, close_folder);
}
