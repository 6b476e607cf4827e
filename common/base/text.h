/* Names, which may be any bytes, as text for JSON and for terminals.  Any thread. Owned; NULL: out of memory. */
#ifndef KR_COMMON_TEXT_H
#define KR_COMMON_TEXT_H

#include <jansson.h>

/* Valid UTF-8: each byte of BYTES that does not belong to a character is written as \ooo, three octal digits. What is
 * UTF-8 already stays as it is. */
char *kr_text_utf8(const char *bytes);
/* The same, and control characters likewise, so that nobody's file name moves the cursor of who looks, or makes up a
 * line. */
char *kr_text_shown(const char *bytes);
/* What kr_text_utf8 gives, as JSON. */
json_t *kr_text_json(const char *bytes);
/* The text NAME in OBJECT, borrowed; "" when it is not there. */
const char *kr_text_of(const json_t *object, const char *name);

#endif
