/* An own training loop: open model and data, ask what it will take, step over batches with accumulation, save.
 *     own_loop MODEL DATA OUTPUT */
#include <snug/snug.h>
#include <stdio.h>

static int train(snug_options *o, const char *output, struct snug_err *err)
{
    snug_session *s;
    struct snug_window w;
    int code = snug_open(o, SNUG_OWN_LOOP, NULL, &s, err);
    if (code)
        return code;
    printf("will allocate %lld bytes\n", (long long)snug_peak_bytes(s));
    code = snug_load(s, err);
    while (!code && !(code = snug_next(s, &w, err)) && w.n_micro) {
        double loss = 0, part, norm;
        for (int i = 0; i < w.n_micro && !(code = snug_forward_backward(s, i, &part, err)); i++)
            loss += part;
        if (!code && !(code = snug_update(s, w.learning_rate, &norm, err)))
            printf("step %lld/%lld loss %.4f norm %.3f\n", (long long)w.step + 1, (long long)w.steps, loss, norm);
    }
    if (!code)
        code = snug_save(s, output, err);
    snug_close(s);
    return code;
}

int main(int argc, char **argv)
{
    struct snug_err err = {0};
    snug_options *o = NULL;
    if (argc != 4)
        return fprintf(stderr, "usage: own_loop MODEL DATA OUTPUT\n"), SNUG_ERR_USAGE;
    const char *settings[][2] = {{"model", argv[1]},
                                 {"train_data", argv[2]},
                                 {"output_dir", argv[3]},
                                 {"per_device_train_batch_size", "4"},
                                 {"gradient_accumulation_steps", "2"},
                                 {"num_train_epochs", "2"},
                                 {"learning_rate", "1e-3"},
                                 {"device", "cpu"}};
    int code = snug_options_new("train", &o, &err);
    for (size_t i = 0; !code && i < sizeof settings / sizeof *settings; i++)
        code = snug_options_set(o, settings[i][0], settings[i][1], &err);
    if (!code)
        code = train(o, argv[3], &err);
    if (code)
        fprintf(stderr, "own_loop: %s\n", err.text);
    snug_options_free(o);
    return code;
}
