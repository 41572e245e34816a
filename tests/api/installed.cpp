// What others write in C++: built against the installed library by tests/api/install.
#include <iostream>
#include <memory>
#include <snug/snug.h>

static int arena_alloc()
{
    return 42;
}

int main()
{
    snug_err err{};
    snug_options *made = nullptr;
    if (snug_options_new("train", &made, &err)) {
        std::cerr << err.text << "\n";
        return 1;
    }
    std::unique_ptr<snug_options, decltype(&snug_options_free)> options(made, snug_options_free);
    std::cout << snug_version() << " " << arena_alloc() << "\n";
}
