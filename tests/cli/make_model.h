/* make_model.h: the commands `model` and `st` that cases of messages.txt use; make_model.c says what they make. */
#ifndef CLI_MAKE_MODEL_H
#define CLI_MAKE_MODEL_H

/* Both are main functions; 125 when they are used wrongly. */
int make_model(int argc, char **argv);
int make_safetensors(int argc, char **argv);

#endif
