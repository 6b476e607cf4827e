/* Metrics as text: the figures of a status (JSON) in OpenMetrics 1.0, as Prometheus and others scrape them.
 *
 * A table says which figure becomes which metric.  PURE. */
#ifndef KR_COMMON_EXPOSITION_H
#define KR_COMMON_EXPOSITION_H

#include <jansson.h>
#include <stddef.h>

#define KR_METRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum kr_metric_type { KR_METRIC_GAUGE, KR_METRIC_COUNTER, KR_METRIC_HISTOGRAM, KR_METRIC_INFO };

/* Rows of the same name follow each other and are one metric; only the first needs type, unit and help. */
struct kr_metric {
	const char *name; /* without the suffix _total or _info; ends with the unit */
	enum kr_metric_type type;
	const char *unit; /* NULL: none */
	/* Where the figure is: names of members, "journal.used".  A histogram is an object as of kr_histogram_json.
	 * true is 1.  A figure that the status lacks, or that is null, is left out. */
	const char *path;
	/* NULL, or the path of an array: PATH is within each of its objects, and LABEL lists the members ("name,node")
	 * of these that are labels. */
	const char *array;
	double divisor; /* of the figure: 1000 for milliseconds; 0: 1 */
	/* "kind": the path leads to an object, each of whose figures is a sample with its name as this label.
	 * "kind=read": this label.  Of KR_METRIC_INFO: the name of the label whose value the text at PATH is. */
	const char *label;
	const char *help;
};

/* The text, owned, with "# EOF" at its end.  NULL: out of memory. */
char *kr_exposition(const struct kr_metric *metrics, size_t count, const json_t *status);

#endif
