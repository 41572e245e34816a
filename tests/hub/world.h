/* world.h: a hub of our own with a model of five files, and a cache to fill from it. */
#ifndef TESTS_HUB_WORLD_H
#define TESTS_HUB_WORLD_H

#include "../folder.h"
#include "hub/get.h"
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define CACHE "models--org--model"

/* ETags are sha256sum's and git hash-object's. */
#define CONFIG_TEXT "{\"model_type\": \"bert\"}\n"
#define TOKENS_TEXT "{\"version\": \"1.0\"}\n"
#define CONFIG_TAG "dc1fb7b6703fe03317c1a080b523bf475f3d4818"
#define TOKENS_TAG "92bdb0aff34a95a7c00546c3d608c984294164ed"
#define WEIGHTS_TAG "0c61ba80779f4ed4b2f8b413ac6796e58d65ae3621b7d2f7e1b0d00d9c337fa6"
enum { CONFIG = sizeof CONFIG_TEXT - 1, TOKENS = sizeof TOKENS_TEXT - 1, WEIGHTS = 70000 };
extern char weights[WEIGHTS];
extern const struct served model[5];

struct world {
    char cache[64];
    struct server server;
    struct arena arena;
    struct snug_err err;
    const char *const *paths;
    size_t n;
    struct io io;
    struct stop_flag stop;
    struct hub_events events;
    char notes[4096];
    int64_t done, total;
    int told, stop_after; /* progress: calls; the one that asks to stop, 0: none */
};

/* Sets HF_ENDPOINT, HF_HOME and HF_HUB_CACHE; no token, online. */
void open_world(struct world *w);
void close_world(struct world *w);

int get(struct world *w, const char *text, enum hub_part part);
/* The same of org/model; the address of the hub in an error is HUB. */
void expect(struct world *w, int code, const char *text);

const char *at(const struct world *w, const char *path); /* in the cache */
int names_in(const char *dir);
void expect_bytes(const char *path, const char *bytes, size_t n);
void expect_link(const struct world *w, const char *path, const char *target);
void expect_model(struct world *w); /* its snapshot is whole */

#endif
