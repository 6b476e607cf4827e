/* See findings.h. */
#include "tools/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "common/base/util.h"

static const char *const words[] = {"ok", "warning", "problem"};

void kr_findings_begin(struct kr_findings *findings, const char *about)
{
	free(findings->about);
	findings->about = kr_text_shown(about);
	if (!findings->list)
		printf("%s\n", findings->about);
}

void kr_findings_add(struct kr_findings *findings, enum kr_finding finding, const char *check, const char *advice,
	const char *format, ...)
{
	KR_AUTO_FREE char *text = NULL, *shown = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	shown = kr_text_shown(text); /* it may name what others have named */
	findings->count[finding]++;
	if (findings->list) {
		json_array_append_new(findings->list,
			json_pack("{s:s, s:s, s:s, s:s, s:s}", "about", findings->about, "check", check, "result",
				words[finding], "text", shown, "advice", advice ? advice : ""));
		return;
	}
	printf("  %-8s %s: %s\n", finding == KR_FINDING_PROBLEM ? "PROBLEM" : words[finding], check, shown);
	if (advice)
		printf("           -> %s\n", advice);
	fflush(stdout); /* the next check may take seconds */
}

bool kr_findings_end(struct kr_findings *findings)
{
	unsigned warnings = findings->count[KR_FINDING_WARNING], problems = findings->count[KR_FINDING_PROBLEM];

	if (findings->list) {
		json_dumpf(findings->list, stdout, JSON_INDENT(2));
		printf("\n");
	} else if (!warnings && !problems) {
		printf("nothing to do\n");
	} else {
		printf("%u problem%s, %u warning%s\n", problems, KR_S(problems), warnings, KR_S(warnings));
	}
	json_decref(findings->list);
	free(findings->about);
	return problems > 0;
}
