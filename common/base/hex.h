/* Bytes as text: two lower-case hexadecimal digits each.  Any thread. */
#ifndef KR_COMMON_HEX_H
#define KR_COMMON_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Writes 2 * LENGTH digits and a NUL to HEX; returns it. */
char *kr_hex_format(const uint8_t *bytes, size_t length, char *hex);
/* The number of bytes; 0: HEX is no such text, or of more than MAX bytes. */
size_t kr_hex_parse(const char *hex, uint8_t *bytes, size_t max);

#endif
