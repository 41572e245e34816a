/* Files that are often found where a model's file should be. None of these beginnings is that of a safetensors file,
 * whose bytes 4 to 7 are 0: they belong to a length of at most 100,000,000. */
#include "format/foreign.h"

#include "base/str.h"

#include <string.h>

static const struct {
    const char *magic;
    size_t bytes;
    const char *kind;
} kinds[] = {
#define MAGIC(s) s, sizeof s - 1
    {MAGIC("version https://git-lfs"), "a Git LFS pointer, not the weights; run `git lfs pull` in its folder"},
    {MAGIC("PK\3\4"), "a zip archive, perhaps PyTorch weights in pickle form, which are never read; convert it"},
    {MAGIC("GGUF"), "a GGUF file; give it the ending .gguf"},
    {MAGIC("\x89HDF\r\n\x1a\n"), "an HDF5 file; get the safetensors version of the model"},
    {MAGIC("\x93NUMPY"), "a NumPy array; get the safetensors version of the model"},
    {MAGIC("\x1f\x8b"), "gzip-compressed; decompress it"},
    {MAGIC("\x28\xb5\x2f\xfd"), "zstd-compressed; decompress it"},
#undef MAGIC
};

const char *foreign_kind(const void *head, size_t bytes)
{
    const char *s = head;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bytes >= kinds[i].bytes && !memcmp(s, kinds[i].magic, kinds[i].bytes))
            return kinds[i].kind;
    if (bytes >= 2 && (unsigned char)s[0] == 0x80 && s[1] >= 2 && s[1] <= 5)
        return "a Python pickle, which is never read; convert the weights to safetensors";
    size_t i = 0;
    while (i < bytes && strchr(" \t\r\n", s[i]) && s[i])
        i++;
    if (i < bytes && s[i] == '<')
        return "an HTML or XML page, perhaps an error of the download; get the file again";
    if (i < bytes && (s[i] == '{' || s[i] == '['))
        return "JSON, perhaps an error of the download; get the file again";
    for (int n; i < bytes; i += (size_t)n) {
        n = utf8_sequence(s + i, bytes - i);
        if ((!n && bytes - i > 3) || ((unsigned char)s[i] < 0x20 && (!s[i] || !strchr("\t\r\n", s[i]))))
            return NULL;
        n += !n; /* the head may end within a character */
    }
    return bytes >= 8 ? "plain text, perhaps an error of the download; get the file again" : NULL;
}
