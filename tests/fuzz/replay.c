/* Gives every file of the named folders to a fuzz target: the saved inputs as an ordinary test. All together end within
 * the test's time limit, which one input that takes more than linear time would use up. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

static void replay(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    MUST(f && !fseek(f, 0, SEEK_END));
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc((size_t)size + !size); /* of just this size: sanitizers see a read behind the end */
    MUST(data && fread(data, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

int main(int argc, char **argv)
{
    int inputs = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **names;
        int n = scandir(argv[i], &names, NULL, alphasort);
        MUST(n >= 0);
        for (int k = 0; k < n; k++) {
            if (names[k]->d_name[0] != '.') {
                replay(argv[i], names[k]->d_name);
                inputs++;
            }
            free(names[k]);
        }
        free(names);
    }
    printf("%d inputs\n", inputs);
    return inputs ? 0 : 1;
}
