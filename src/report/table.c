#include "report/table.h"

#include "options/options.h"

enum { LONGEST_WORD = 24 }; /* bytes; what is longer gets a column wide enough to be read as a text */

void table_begin(struct str *out, const char *title)
{
    str_append(out, "<section>\n<h2>");
    str_append(out, title);
    str_append(out, "</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"");
    str_append(out, title);
    str_append(out, "\"><table>\n<thead><tr>");
}

void table_head(struct str *out, const char *text)
{
    str_append(out, "<th scope=\"col\">");
    str_xml(out, text);
    str_append(out, "</th>");
}

void table_body(struct str *out)
{
    str_append(out, "</tr></thead><tbody>\n");
}

void table_row(struct str *out, const char *name)
{
    str_append(out, "<tr>");
    if (!name)
        return;
    str_append(out, "<th scope=\"row\">");
    str_xml(out, name);
    str_append(out, "</th>");
}

void table_value(struct str *out, const json_t *v)
{
    struct str text = {0};
    if (json_is_string(v))
        str_append(&text, json_string_value(v));
    else if (json_is_real(v) || json_is_integer(v))
        str_printf(&text, "%.10g", json_number_value(v));
    else if (v && !json_is_null(v))
        options_json_value(v, &text);
    else
        str_append(&text, "-");
    bool word = text.n <= LONGEST_WORD;
    str_append(out, json_is_number(v) ? "<td class=\"n\">" : word ? "<td>" : "<td class=\"text\">");
    str_xml(out, str_text(&text));
    str_append(out, "</td>");
    out->failed |= text.failed;
    str_free(&text);
}

void table_number(struct str *out, const json_t *v)
{
    if (json_is_real(v))
        str_printf(out, "<td class=\"n\">%.4g</td>", json_real_value(v));
    else
        table_value(out, v);
}

void table_row_end(struct str *out)
{
    str_append(out, "</tr>\n");
}

void table_end(struct str *out)
{
    str_append(out, "</tbody></table></div>\n</section>\n");
}
