/* The rows of the last evaluation that were wrong with the highest loss. */
#include "report/page.h"

#include "report/table.h"

static bool has_text(const json_t *mistakes)
{
    size_t i;
    json_t *m;
    json_array_foreach(mistakes, i, m) if (json_object_get(m, "text")) return true;
    return false;
}

/* A row may have no label, or none may be predicted. */
static void put_answer(const json_t *answer, struct str *out)
{
    table_value(out, json_string_length(answer) ? answer : NULL);
}

void page_mistakes(const struct facts *f, struct str *out)
{
    const json_t *mistakes = json_object_get(f->evaluation, "mistakes");
    bool text = has_text(mistakes);
    size_t i;
    json_t *m;
    if (!json_array_size(mistakes))
        return;
    table_begin(out, "Worst mistakes");
    table_head(out, "row, from 0");
    table_head(out, "loss");
    table_head(out, "label");
    table_head(out, "predicted");
    if (text)
        table_head(out, "text");
    table_body(out);
    json_array_foreach(mistakes, i, m)
    {
        table_row(out, NULL);
        table_value(out, json_object_get(m, "row"));
        table_number(out, json_object_get(m, "loss"));
        put_answer(json_object_get(m, "label"), out);
        put_answer(json_object_get(m, "predicted"), out);
        if (text)
            table_value(out, json_object_get(m, "text"));
        table_row_end(out);
    }
    table_end(out);
}
