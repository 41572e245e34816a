#include <stdio.h>

int main(void)
{
    return puts("snug " SNUG_VERSION) < 0;
}
