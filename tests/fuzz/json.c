/* Any bytes as a JSON document: what is accepted must survive being written and read again. */
#include "format/json.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *first, *second;
    struct snug_err err = {0};
    int code = json_parse((const char *)data, size, "f", &first, &err);
    MUST(code == SNUG_OK || code == SNUG_ERR_INPUT);
    if (code) {
        MUST(!first && strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    char *text = json_dumps(first, JSON_ENCODE_ANY | JSON_COMPACT);
    MUST(text);
    MUST(json_parse(text, strlen(text), "f", &second, &err) == SNUG_OK);
    MUST(json_equal(first, second));
    free(text);
    json_decref(first);
    json_decref(second);
    return 0;
}
