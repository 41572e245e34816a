/* One step's norm, clipping and loss scale, in numbers worked out by hand from op/clip.h's sources: torch's
 * clip_grad_norm_ and torch.amp.GradScaler (growth 2, backoff 0.5, interval 2000). */
#include "op/clip.h"
#include "checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct decision {
    double norm, coef;
};

static struct decision decide(double sum, double max_norm, double *scaler)
{
    struct decision d = {0};
    clip_decide(sum, max_norm, scaler, &d.norm, &d.coef);
    return d;
}

static void plain(void)
{
    struct decision d = decide(9 + 16, 1, NULL);
    assert_true(d.norm == 5 && fabs(d.coef - 1 / 5.000001) < 1e-15);
    d = decide(9 + 16, 6, NULL);
    assert_true(d.norm == 5 && d.coef == 1);
    d = decide(9 + 16, 0, NULL);
    assert_true(d.norm == 5 && d.coef == 1);
    d = decide(INFINITY, 1, NULL);
    assert_true(isinf(d.norm) && d.coef == -1);
    d = decide(NAN, 0, NULL);
    assert_true(isnan(d.norm) && d.coef == -1);
}

static void scaled(void)
{
    double s[SCALER_SCALARS] = {65536, 1998, 0, 0};
    struct decision d = decide(65536.0 * 65536 * 25, 1, s); /* the true norm is 5 */
    assert_true(d.norm == 5 && fabs(d.coef * 65536 - 1 / 5.000001) < 1e-15);
    assert_true(s[0] == 65536 && s[1] == 1999 && s[2] == 0);
    d = decide(65536.0 * 65536 * 25, 0, s); /* the 2000th good step in a row */
    assert_true(d.norm == 5 && d.coef == 0x1p-16);
    assert_true(s[0] == 131072 && s[1] == 0 && s[2] == 0);
}

static void skipped(void)
{
    double s[SCALER_SCALARS] = {4, 100, 6, 0};
    struct decision d = decide(INFINITY, 1, s);
    assert_true(d.coef == -1 && s[0] == 2 && s[1] == 0 && s[2] == 7);
    d = decide(NAN, 1, s);
    assert_true(d.coef == -1 && s[0] == 1 && s[2] == 8);
    d = decide(1, 0, s);
    assert_true(d.coef == 1 && s[1] == 1 && s[2] == 8);
}

/* The scale stays a float. */
static void ends_of_the_range(void)
{
    double s[SCALER_SCALARS] = {0x1p127, 1999, 0, 0};
    decide(1, 0, s);
    assert_true(s[0] == 0x1p127 && s[1] == 0);
}

void test_clip(void **state)
{
    (void)state;
    plain();
    scaled();
    skipped();
    ends_of_the_range();
}
