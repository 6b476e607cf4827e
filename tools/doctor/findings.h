/* What the checks of kairan doctor find, printed at once. */
#ifndef KR_TOOLS_DOCTOR_FINDINGS_H
#define KR_TOOLS_DOCTOR_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>

enum kr_finding { KR_FINDING_OK, KR_FINDING_WARNING, KR_FINDING_PROBLEM };

struct kr_findings {
	json_t *list; /* array, owned; NULL: print text */
	char *about;  /* what the next findings are about, owned */
	unsigned count[3];
};

/* The next findings are about this machine, a mount or a server. */
void kr_findings_begin(struct kr_findings *findings, const char *about);
/* One check's result: what there is and what it costs; ADVICE: what to do, NULL with KR_FINDING_OK. */
void kr_findings_add(struct kr_findings *findings, enum kr_finding finding, const char *check, const char *advice,
	const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Prints the sum, or all of it as JSON, and frees it.  Whether there is a problem. */
bool kr_findings_end(struct kr_findings *findings);

#endif
