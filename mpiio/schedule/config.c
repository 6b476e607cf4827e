/* See config.h. */
#include "mpiio/schedule/config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kr_mode mode = KR_MODE_AUTO;

static void read_mode(void)
{
	const char *value = getenv("KAIRAN_MPIIO");

	if (!value || strcmp(value, "") == 0 || strcmp(value, "auto") == 0)
		return;
	mode = strcmp(value, "force") == 0 ? KR_MODE_FORCE : KR_MODE_OFF;
	if (mode == KR_MODE_OFF && strcmp(value, "off") != 0)
		fprintf(stderr, "libkairan-mpiio: KAIRAN_MPIIO=%s: must be off, auto or force; taken as off\n", value);
}

enum kr_mode kr_config_mode(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_mode);
	return mode;
}
