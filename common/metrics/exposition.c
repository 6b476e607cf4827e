/* See exposition.h. */
#include "common/metrics/exposition.h"

#include <inttypes.h>
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

/* One line: the name, labels, the number.  LABEL (may be NULL) has the value VALUE, LE is a bucket's limit or NULL. */
static void put_sample(FILE *out, const char *name, const char *suffix, const char *label, const char *value,
	const char *le, double number)
{
	fprintf(out, "%s%s", name, suffix);
	if (label || le)
		fputc('{', out);
	if (label) {
		fprintf(out, "%s=\"", label);
		put_escaped(out, value);
		fputc('"', out);
	}
	if (le)
		fprintf(out, "%sle=\"%s\"", label ? "," : "", le);
	if (label || le)
		fputc('}', out);
	put_number(out, number);
}

/* All buckets, also those that are not used, so that the lines are the same in each scrape. */
static void put_histogram(
	FILE *out, const struct kr_metric *metric, const char *label, const char *value, const json_t *histogram)
{
	const json_t *buckets = json_object_get(histogram, "buckets");
	json_int_t total = 0;
	char le[32];

	for (unsigned i = 0; i < KR_HISTOGRAM_BUCKETS; i++) {
		total += json_integer_value(json_array_get(buckets, i));
		if (i < KR_HISTOGRAM_BUCKETS - 1)
			snprintf(le, sizeof(le), "%.9g", (double)(UINT64_C(1) << i) / 1e6);
		put_sample(out, metric->name, "_bucket", label, value, i < KR_HISTOGRAM_BUCKETS - 1 ? le : "+Inf",
			(double)total);
	}
	put_sample(out, metric->name, "_count", label, value, NULL, (double)total);
	put_sample(out, metric->name, "_sum", label, value, NULL,
		(double)json_integer_value(json_object_get(histogram, "sum_us")) / 1e6);
}

static void put_figure(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const char *label,
	const char *value, const json_t *figure)
{
	double number = json_is_boolean(figure) ? json_is_true(figure) : json_number_value(figure);

	if (type == KR_METRIC_HISTOGRAM)
		put_histogram(out, metric, label, value, figure);
	else if (type == KR_METRIC_INFO)
		put_sample(out, metric->name, "_info", label, json_string_value(figure), NULL, 1);
	else
		put_sample(out, metric->name, type == KR_METRIC_COUNTER ? "_total" : "", label, value, NULL,
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
	const char *value;
	const json_t *figure;

	for (void *at = json_object_iter((json_t *)(uintptr_t)object); at;
		at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
		value = json_object_iter_key(at);
		figure = json_object_iter_value(at);
		if (has_figure(type, figure))
			put_figure(out, metric, type, metric->label, value, figure);
	}
}

static void put_row(FILE *out, const struct kr_metric *metric, enum kr_metric_type type, const json_t *status)
{
	const json_t *figure = find(status, metric->path);
	const char *value = metric->label ? strchr(metric->label, '=') : NULL;
	char label[64];

	if (metric->label && !value && type != KR_METRIC_INFO) {
		put_object(out, metric, type, figure);
		return;
	}
	if (!has_figure(type, figure))
		return;
	if (metric->label)
		snprintf(label, sizeof(label), "%.*s", (int)strcspn(metric->label, "="), metric->label);
	put_figure(out, metric, type, metric->label ? label : NULL, value ? value + 1 : NULL, figure);
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
