// … and in C++17.
#include "snug/snug.h"

int main()
{
    snug_err err{};
    snug_options *o = nullptr;
    int code = snug_options_new("no such command", &o, &err);
    return code == SNUG_ERR_USAGE && err.text[0] ? 0 : 1;
}
