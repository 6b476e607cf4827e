/* Names, which may be any bytes, as text for JSON and for terminals.  Any thread.  Results are owned; NULL: out of
 * memory. */
#ifndef KR_COMMON_TEXT_H
#define KR_COMMON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Valid UTF-8: each byte of BYTES that belongs to no character becomes \ooo, three octal digits. */
char *kr_text_utf8(const char *bytes);
/* The same, and control characters likewise, so that no file name moves a terminal's cursor or forges a line. */
char *kr_text_shown(const char *bytes);
/* The result of kr_text_utf8, as JSON. */
json_t *kr_text_json(const char *bytes);
/* The text NAME in OBJECT, borrowed; "" if OBJECT has none. */
const char *kr_text_of(const json_t *object, const char *name);
/* The integer SECTION.NAME of OBJECT, as in kr_number(status, "backlog", "bytes"), or NAME where SECTION is NULL; 0 if
 * there is none. */
json_int_t kr_number(const json_t *object, const char *section, const char *name);
/* Whether TEXT names a job or a node: 1 to MAX bytes without blanks, control characters and slashes. */
bool kr_text_is_name(const char *text, size_t max);

#endif
