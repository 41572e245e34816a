/* Any bytes as a YAML document: what is accepted is the same when it is written as JSON, which is YAML, and read again. */
#include "format/yaml.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *first, *second, *lines;
    struct snug_err err = {0};
    int code = yaml_parse((const char *)data, size, "f", &first, &lines, &err);
    MUST(code == SNUG_OK || code == SNUG_ERR_INPUT);
    if (code) {
        MUST(!first && !lines && strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    json_decref(lines);
    char *text = json_dumps(first, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    MUST(text);
    if (yaml_parse(text, strlen(text), "f", &second, &lines, &err) ==
        SNUG_OK) { /* a key of 1024 bytes is too long for one */
        MUST(json_equal(first, second));
        json_decref(second);
        json_decref(lines);
    }
    free(text);
    json_decref(first);
    return 0;
}
