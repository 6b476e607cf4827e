/* See units.h. */
#include "tools/base/units.h"

#include <stdio.h>

#include "common/base/util.h"

const char *kr_bytes_text(json_int_t bytes)
{
	static char buffers[8][32];
	static unsigned next;
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	char *buffer = buffers[next++ % KR_ARRAY_SIZE(buffers)];
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(buffer, sizeof(buffers[0]), "%" JSON_INTEGER_FORMAT " byte%s", bytes, KR_S(bytes));
		return buffer;
	}
	for (value /= 1024; value >= 1024 && unit + 1 < KR_ARRAY_SIZE(units); unit++)
		value /= 1024;
	snprintf(buffer, sizeof(buffers[0]), "%.1f %s", value, units[unit]);
	return buffer;
}

const char *kr_time_text(json_int_t ms)
{
	static char buffers[8][32];
	static unsigned next;
	char *buffer = buffers[next++ % KR_ARRAY_SIZE(buffers)];
	const double seconds = (double)ms / 1000;

	if (seconds < 99.95)
		snprintf(buffer, sizeof(buffers[0]), "%.1f s", seconds);
	else if (seconds < 99.5 * 60)
		snprintf(buffer, sizeof(buffers[0]), "%.0f min", seconds / 60);
	else if (seconds < 99.5 * 3600)
		snprintf(buffer, sizeof(buffers[0]), "%.0f h", seconds / 3600);
	else
		snprintf(buffer, sizeof(buffers[0]), "%.0f days", seconds / 86400);
	return buffer;
}
