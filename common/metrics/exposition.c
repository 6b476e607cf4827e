/* See exposition.h. */
#include "common/metrics/exposition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/histogram.h"
#include "common/base/util.h"

static const char *const type_names[] = {
	[KR_METRIC_GAUGE] = "gauge",
	[KR_METRIC_COUNTER] = "counter",
	[KR_METRIC_HISTOGRAM] = "histogram",
	[KR_METRIC_INFO] = "info",
};

/* The figure at PATH; NULL. */
static const json_t *find(const json_t *status, const char *path)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(path);
	char *rest = NULL;

	for (char *name = strtok_r(copy, ".", &rest); name && status; name = strtok_r(NULL, ".", &rest))
		status = json_object_get(status, name);
	return status;
}

/* In quotation marks and in help, backslash, quotation mark and line feed are escaped. */
static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || *text == '"')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void put_number(FILE *out, double number)
{
	if (number == floor(number) && fabs(number) < 9e15)
		fprintf(out, " %.0f\n", number);
	else
		fprintf(out, " %.9g\n", number);
}

/* The labels of a sample: NAMES as in kr_metric.label (NULL: none), of which the only one has VALUE, or each has that
 * of the member of OBJECT with its name. */
struct labels {
	const char *names, *value;
	const json_t *object;
};

static void put_member(FILE *out, const json_t *object, const char *name, size_t length)
{
	char member[32];
	const json_t *value;

	snprintf(member, sizeof(member), "%.*s", (int)length, name);
	value = json_object_get(object, member);
	if (json_is_string(value))
		put_escaped(out, json_string_value(value));
	else
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
}

/* LE is a bucket's limit or NULL. */
static void put_labels(FILE *out, const struct labels *labels, const char *le)
{
	const char *opening = "{", *end;

	for (const char *name = labels->names; name; name = *end == ',' ? end + 1 : NULL) {
		end = name + strcspn(name, ",=");
		fprintf(out, "%s%.*s=\"", opening, (int)(end - name), name);
		if (labels->value)
			put_escaped(out, labels->value);
		else
			put_member(out, labels->object, name, (size_t)(end - name));
		fputc('"', out);
		opening = ",";
	}
	if (le)
		fprintf(out, "%sle=\"%s\"", opening, le);
	if (labels->names || le)
		fputc('}', out);
}

/* One line: the name, labels, the number. */
static void put_sample(
	FILE *out, const char *name, const char *suffix, const struct labels *labels, const char *le, double number)
{
	fprintf(out, "%s%s", name, suffix);
	put_labels(out, labels, le);
	put_number(out, number);
}

/* All buckets, also those that are not used, so that the lines are the same in each scrape. */
static void put_histogram(
	FILE *out, const struct kr_metric *metric, const struct labels *labels, const json_t *histogram)
{
	const json_t *buckets = json_object_get(histogram, "buckets");
	json_int_t total = 0;
	char le[32];

	for (unsigned i = 0; i < KR_HISTOGRAM_BUCKETS; i++) {
		total += json_integer_value(json_array_get(buckets, i));
		if (i < KR_HISTOGRAM_BUCKETS - 1)
			snprintf(le, sizeof(le), "%.9g", (double)(UINT64_C(1) << i) / 1e6);
		put_sample(out, metric->name, "_bucket", labels, i < KR_HISTOGRAM_BUCKETS - 1 ? le : "+Inf",
			(double)total);
	}
	put_sample(out, metric->name, "_count", labels, NULL, (double)total);
	put_sample(out, metric->name, "_sum", labels, NULL,
		(double)json_integer_value(json_object_get(histogram, "sum_us")) / 1e6);
}

static void put_figure(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const struct labels *labels,
	const json_t *figure)
{
	double number = json_is_boolean(figure) ? json_is_true(figure) : json_number_value(figure);

	if (type == KR_METRIC_HISTOGRAM)
		put_histogram(out, metric, labels, figure);
	else if (type == KR_METRIC_INFO)
		put_sample(out, metric->name, "_info", labels, NULL, 1);
	else
		put_sample(out, metric->name, type == KR_METRIC_COUNTER ? "_total" : "", labels, NULL,
			number / (metric->divisor > 0 ? metric->divisor : 1));
}

static bool has_figure(enum kr_metric_type type, const json_t *figure)
{
	switch (type) {
	case KR_METRIC_HISTOGRAM:
		return json_is_object(figure);
	case KR_METRIC_INFO:
		return json_is_string(figure);
	default:
		return json_is_number(figure) || json_is_boolean(figure);
	}
}

static void put_object(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const json_t *object)
{
	for (void *at = json_object_iter((json_t *)(uintptr_t)object); at;
		at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
		const struct labels labels = {.names = metric->label, .value = json_object_iter_key(at)};
		const json_t *figure = json_object_iter_value(at);

		if (has_figure(type, figure))
			put_figure(out, metric, type, &labels, figure);
	}
}

static void put_array(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const struct labels labels = {.names = metric->label, .object = json_array_get(array, i)};
		const json_t *figure = find(labels.object, metric->path);

		if (has_figure(type, figure))
			put_figure(out, metric, type, &labels, figure);
	}
}

static void put_row(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const json_t *status)
{
	const json_t *figure = find(status, metric->array ? metric->array : metric->path);
	const char *value = metric->label ? strchr(metric->label, '=') : NULL;
	const struct labels labels = {.names = metric->label, .value = value ? value + 1 : json_string_value(figure)};

	if (metric->array)
		put_array(out, metric, type, figure);
	else if (metric->label && !value && type != KR_METRIC_INFO)
		put_object(out, metric, type, figure);
	else if (has_figure(type, figure))
		put_figure(out, metric, type, &labels, figure);
}

static void put_head(FILE *out, const struct kr_metric *metric)
{
	fprintf(out, "# TYPE %s %s\n", metric->name, type_names[metric->type]);
	if (metric->unit)
		fprintf(out, "# UNIT %s %s\n", metric->name, metric->unit);
	fprintf(out, "# HELP %s ", metric->name);
	put_escaped(out, metric->help);
	fputc('\n', out);
}

char *kr_exposition(const struct kr_metric *metrics, size_t count, const json_t *status)
{
	const struct kr_metric *first = NULL; /* row of the metric */
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	bool failed;

	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (!first || strcmp(first->name, metrics[i].name) != 0) {
			first = &metrics[i];
			put_head(out, first);
		}
		put_row(out, &metrics[i], first->type, status);
	}
	fputs("# EOF\n", out);
	failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}
