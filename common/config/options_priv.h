/* What the files of the options share: options.c (values), options_file.c (JSON), options_args.c (command line, help).
 */
#ifndef KR_COMMON_OPTIONS_PRIV_H
#define KR_COMMON_OPTIONS_PRIV_H

#include "common/config/options.h"

/* The option called NAME, of LENGTH bytes; '-' counts as '_'. NULL: none. */
const struct kr_option *kr_option_find(const struct kr_options *set, const char *name, size_t length);
static inline void *kr_option_field(const struct kr_option *option, void *values)
{
	return (char *)values + option->offset;
}
/* Frees the value, if it owns memory, and makes it empty. */
void kr_option_clear(const struct kr_option *option, void *values);
/* A number as one writes it: "64K", "20s". */
void kr_option_format_number(enum kr_option_type type, uint64_t value, char *text, size_t size);
/* The INDEX-th of "a|b|c": its start and length; NULL when there are fewer. */
const char *kr_option_choice(const char *choices, int index, size_t *ret_length);

#endif
