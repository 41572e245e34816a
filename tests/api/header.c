/* snug.h stands alone in C11 … */
#include "snug/snug.h"

int main(void)
{
    return snug_version()[0] == 0;
}
