/* See envelope_view.h. */
#include "tools/bench/envelope_view.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/units.h"

json_t *kr_envelope_load(const char *path)
{
	json_error_t error;
	json_t *envelope = json_load_file(path, 0, &error);

	if (kr_number(envelope, NULL, "kairan envelope") == KR_ENVELOPE_FORMAT)
		return envelope;
	if (!envelope && json_error_code(&error) == json_error_cannot_open_file) {
		kr_fail(-ENOENT, "%s", error.text);
		return NULL;
	}
	json_decref(envelope);
	kr_fail(-EBADMSG, "%s is not an envelope of this version", path);
	return NULL;
}

static int ascending(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

json_t *kr_envelope_point(
	const char *what, json_int_t nodes, json_int_t processes, json_int_t size, double *rates, size_t count)
{
	qsort(rates, count, sizeof(*rates), ascending);
	return json_pack("{ss sI sI sI sf sf sf}", "what", what, "nodes", nodes, "processes", processes, "size", size,
		"per_s", rates[count / 2], "lowest", rates[0], "highest", rates[count - 1]);
}

json_int_t kr_envelope_nodes(const json_t *point)
{
	return KR_MAX(kr_number(point, NULL, "nodes"), (json_int_t)1); /* earlier versions know one */
}

static double real(const json_t *point, const char *name)
{
	return json_number_value(json_object_get(point, name));
}

static void print_point(const json_t *point, FILE *out)
{
	const json_int_t size = kr_number(point, NULL, "size");

	fprintf(out, "%-24s %5" JSON_INTEGER_FORMAT " %4" JSON_INTEGER_FORMAT " %10s", kr_text_of(point, "what"),
		kr_envelope_nodes(point), kr_number(point, NULL, "processes"), size ? kr_bytes_text(size) : "-");
}

void kr_envelope_print(const json_t *envelope, FILE *out)
{
	const json_t *point;
	size_t i;

	fprintf(out, "%-24s %5s %4s %10s %12s %10s %17s\n", "", "nodes", "proc", "file size", "files/s", "MiB/s",
		"lowest to highest");
	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		double rate = real(point, "per_s"), size = (double)kr_number(point, NULL, "size");

		print_point(point, out);
		fprintf(out, " %12.1f", rate);
		if (size > 0)
			fprintf(out, " %10.1f", rate * size / (1 << 20));
		else
			fprintf(out, " %10s", "");
		fprintf(out, "   %+3.0f %% to %+3.0f %%\n", rate > 0 ? 100 * (real(point, "lowest") / rate - 1) : 0,
			rate > 0 ? 100 * (real(point, "highest") / rate - 1) : 0);
	}
}

static const json_t *same_point(const json_t *envelope, const json_t *point)
{
	const json_t *other;
	size_t i;

	json_array_foreach(json_object_get(envelope, "points"), i, other)
	{
		if (strcmp(kr_text_of(other, "what"), kr_text_of(point, "what")) == 0 &&
			kr_number(other, NULL, "size") == kr_number(point, NULL, "size") &&
			kr_envelope_nodes(other) == kr_envelope_nodes(point) &&
			kr_number(other, NULL, "processes") == kr_number(point, NULL, "processes"))
			return other;
	}
	return NULL;
}

size_t kr_envelope_compare(const json_t *a, const json_t *b, FILE *out)
{
	const json_t *point;
	size_t i, count = 0;

	fprintf(out, "%-24s %5s %4s %10s %12s %12s %8s\n", "files/s", "nodes", "proc", "file size", "first", "second",
		"quotient");
	json_array_foreach(json_object_get(a, "points"), i, point)
	{
		const json_t *other = same_point(b, point);
		double first = real(point, "per_s"), second = real(other, "per_s");
		bool apart = real(point, "highest") < real(other, "lowest") ||
			real(point, "lowest") > real(other, "highest");

		if (!other)
			continue;
		count++;
		print_point(point, out);
		fprintf(out, " %12.1f %12.1f %8.2f%s\n", first, second, first > 0 ? second / first : 0,
			apart ? " *" : "");
	}
	fputs("* outside of each other's range\n", out);
	return count;
}
