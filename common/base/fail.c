/* The calling thread's last reason for a failure.  Any thread; no locks, since each thread has its own reason. */
#include "common/base/fail.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char reason[512] = "no reason was given";

/* Formats first and copies after, because an argument may be the old reason itself. */
static void record(const char *suffix, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
static void record(const char *suffix, const char *format, va_list arguments)
{
	char text[sizeof(reason)];

	if (vsnprintf(text, sizeof(text), format, arguments) < 0)
		text[0] = '\0';
	if (suffix) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, ": %s", suffix);
	}
	memcpy(reason, text, sizeof(reason));
}

void kr_fail_record(int err, const char *format, ...)
{
	va_list arguments;

	(void)err;
	va_start(arguments, format);
	record(NULL, format, arguments);
	va_end(arguments);
}

void kr_fail_record_errno(int err, const char *format, ...)
{
	char text[128];
	va_list arguments;

	va_start(arguments, format);
	record(strerror_r(-err, text, sizeof(text)), format, arguments);
	va_end(arguments);
}

const char *kr_fail_reason(void)
{
	return reason;
}
