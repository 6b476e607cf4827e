/* An envelope, or two beside each other, as a page with charts. */
#ifndef KR_TOOLS_BENCH_ENVELOPE_PAGE_H
#define KR_TOOLS_BENCH_ENVELOPE_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* Writes a page that needs no other file.  B: dashed lines beside those of A; NULL: none. */
void kr_envelope_page(const json_t *a, const json_t *b, FILE *out);

#endif
