/* xml.h: whether a text is well-formed XML 1.0, as far as pictures go: no document types, no CDATA. */
#ifndef CLI_XML_H
#define CLI_XML_H

#include <stddef.h>

/* NULL, or what is wrong and where, in a static buffer. */
const char *xml_complaint(const char *text, size_t n);

#endif
