/* Fuzz target: a configuration file, or what stands behind -o.
 *
 * Bit 0 of byte 0 of the input chooses which.  What a file sets must come back from --print-config's text; what is
 * refused has a reason of one line.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/config/options.h"
#include "common/base/util.h"
#include "test/fuzz/fuzz.h"

struct values {
	char *name, *path;
	uint64_t size, delay_ms, threads;
	bool sync, foreground;
	int mode;
	struct kr_strings listen;
};

#define AT(field) offsetof(struct values, field)
static const struct kr_option table[] = {
	{"name", KR_OPTION_STRING, AT(name), .help = "a name"},
	{"path", KR_OPTION_PATH, AT(path), .help = "a path"},
	{"size", KR_OPTION_SIZE, AT(size), "8M", 4096, UINT64_C(1) << 50, .help = "a size"},
	{"delay", KR_OPTION_SECONDS, AT(delay_ms), "5", 100, 3600 * 1000, .help = "a time"},
	{"threads", KR_OPTION_COUNT, AT(threads), "4", 1, .help = "a number without a maximum"},
	{"sync", KR_OPTION_BOOL, AT(sync), "true", .help = "yes or no"},
	{"foreground", KR_OPTION_BOOL, AT(foreground), .help = "not in a file", .command_line_only = true},
	{"mode", KR_OPTION_ENUM, AT(mode), "strict", .choices = "strict|relaxed|none", .help = "a choice"},
	{"listen", KR_OPTION_LIST, AT(listen), .help = "many"},
};
static const struct kr_options set = {
	.program = "fuzz",
	.usage = "",
	.about = "",
	.section = "mount",
	.options = table,
	.count = KR_ARRAY_SIZE(table),
};

static void read_file(const char *text)
{
	struct values values = {0}, again = {0};
	KR_AUTO_FREE char *first = NULL, *second = NULL;
	size_t length;
	FILE *out;

	assert(kr_options_set_defaults(&set, &values) == 0);
	if (kr_options_read_json(&set, text, "FILE", &values) == 0) {
		assert(kr_options_set_defaults(&set, &again) == 0);
		out = open_memstream(&first, &length);
		kr_options_print(&set, &values, out);
		fclose(out);
		assert(kr_options_read_json(&set, first, "again", &again) == 0);
		out = open_memstream(&second, &length);
		kr_options_print(&set, &again, out);
		fclose(out);
		assert(strcmp(first, second) == 0);
		assert(values.size == again.size && values.delay_ms == again.delay_ms &&
			values.threads == again.threads);
	} else {
		assert(strncmp(kr_fail_reason(), "FILE", 4) == 0);
	}
	kr_options_fini(&set, &again);
	kr_options_fini(&set, &values);
}

static void read_list(const char *text)
{
	struct values values = {0};

	assert(kr_options_set_defaults(&set, &values) == 0);
	(void)kr_options_set_list(&set, text, &values);
	assert(values.size >= 4096 && values.threads >= 1 && values.mode >= 0 && values.mode <= 2);
	kr_options_fini(&set, &values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text;

	if (length == 0)
		return 0;
	text = strndup((const char *)bytes + 1, length - 1);
	assert(text);
	if (bytes[0] & 1)
		read_list(text);
	else
		read_file(text);
	free(text);
	return 0;
}
