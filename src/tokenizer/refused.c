/* Classes of transformers that have no tokenizer.json, and do more to a text than the files that they share with others say. Read as
 * those others they would give ids that the model has not learned. */
#include "tokenizer/parts.h"

#include <string.h>

static const struct {
    const char *class;
    const char *model_type; /* that has the class where no file names one; NULL: none has */
    const char *file;       /* which only this class has; NULL: there is none */
    const char *does;
} refused[] = {
    {"BertJapaneseTokenizer", "bert-japanese", NULL, "cuts Japanese into words by MeCab, Sudachi or Juman++ first"},
    {"PhobertTokenizer", NULL, "bpe.codes", "has the codes of fastBPE, for Vietnamese that is cut into words"},
    {"BertweetTokenizer", NULL, "bpe.codes", "changes tweets first, and has the codes of fastBPE"},
    {"FlaubertTokenizer", "flaubert", NULL, "cuts texts by Moses' rules first"},
    {"XLMTokenizer", "xlm", NULL, "cuts texts by Moses' rules or by those of a language first"},
    {"BioGptTokenizer", "biogpt", NULL, "cuts texts by Moses' rules first"},
    {"FSMTTokenizer", "fsmt", NULL, "cuts texts by Moses' rules first"},
    {"CTRLTokenizer", "ctrl", NULL, "joins characters of words in its own way"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

int tokenizer_refuse_class(const struct io *io, struct tokenizer *t, const struct tokenizer_config *c,
                           struct snug_err *err)
{
    for (int i = 0; i < REFUSED; i++) {
        const char *model_type = refused[i].model_type;
        bool is_it = c->class ? !strcmp(c->class, refused[i].class)
                              : model_type && c->model_type && !strcmp(c->model_type, model_type);
        if (!is_it && !c->class && refused[i].file) {
            const char *path = arena_printf(&t->arena, "%s/%s", c->dir, refused[i].file);
            if (!path)
                return err_no_memory(err, strlen(c->dir) + strlen(refused[i].file));
            TRY(tokenizer_has_file(io, path, &is_it, err));
        }
        if (is_it)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: %s is not read, as it %s; tokenize with transformers, and give token ids in "
                           ".safetensors in place of texts",
                           c->dir, refused[i].class, refused[i].does);
    }
    return SNUG_OK;
}
