/* name.h: [OWNER/]NAME[@REVISION][:FILE], what is typed for a repository of the hub. */
#ifndef HUB_NAME_H
#define HUB_NAME_H

#include <stdbool.h>

struct hub_name {
    char repository[200]; /* OWNER/NAME, or NAME */
    char revision[128];   /* a branch, a tag or a commit; "main" where none is given */
    char file[512];       /* below the repository; "" where none is given */
};

/* Whether `text` has that form, and *name what it says. A text that ends as a file of data or weights does, such as
 * data/train.csv, has it only with a FILE. `owner`: without one a text is no name. The hub's first models, such as gpt2, are known
 * without theirs. */
bool hub_name_read(const char *text, bool owner, struct hub_name *name);

/* Whether a path stays below the folder that it is put into: no part is empty, "." or "..", no character steers a terminal. */
bool hub_path_is_safe(const char *path);

#endif
