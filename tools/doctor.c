/* kairan doctor: the command, and the form of what it finds. */
#include "tools/doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/find_mount.h"

static const char usage[] =
	"usage: kairan doctor [--json] [MOUNTPOINT | [--key FILE | --munge [--munge-socket PATH] [--munge-uid UID]] "
	"HOST[:PORT]]\n"
	"Looks for what makes a node or a server slow, unsafe or unreachable, and says what to do.\n"
	"Without an argument: this machine, and all mounts of kairanfs here. Changes nothing.\n"
	"Exit code: 0 no problem (warnings count for none), 1 a problem, 64 wrong arguments.\n";

static const char *const words[] = {"ok", "warning", "problem"};

void kr_doctor_begin(struct kr_doctor *doctor, const char *about)
{
	free(doctor->about);
	doctor->about = kr_text_shown(about);
	if (!doctor->findings)
		printf("%s\n", doctor->about);
}

void kr_doctor_found(struct kr_doctor *doctor, enum kr_finding finding, const char *check, const char *advice,
	const char *format, ...)
{
	KR_AUTO_FREE char *text = NULL, *shown = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	shown = kr_text_shown(text); /* it may name what others have named */
	doctor->count[finding]++;
	if (doctor->findings) {
		json_array_append_new(doctor->findings,
			json_pack("{s:s, s:s, s:s, s:s, s:s}", "about", doctor->about, "check", check, "result",
				words[finding], "text", shown, "advice", advice ? advice : ""));
		return;
	}
	printf("  %-8s %s: %s\n", finding == KR_FINDING_PROBLEM ? "PROBLEM" : words[finding], check, shown);
	if (advice)
		printf("           -> %s\n", advice);
	fflush(stdout); /* the next check may take seconds */
}

static void examine_mount(const struct kr_mounted *mounted, void *context)
{
	kr_doctor_mount(context, mounted);
}

static void examine(struct kr_doctor *doctor, const char *argument, const struct kr_tool_proof *proof)
{
	struct kr_mounted mounted;

	if (argument && !kr_looks_like_path(argument)) {
		kr_doctor_begin(doctor, argument);
		kr_doctor_server(doctor, argument, proof, NULL);
		return;
	}
	kr_doctor_begin(doctor, "this machine");
	kr_doctor_machine(doctor);
	kr_doctor_slurm(doctor);
	if (!argument) {
		if (kr_mounted_for_each(examine_mount, doctor) < 0)
			kr_doctor_found(doctor, KR_FINDING_PROBLEM, "mounts", "see that /proc is mounted", "%s",
				kr_fail_reason());
	} else if (kr_find_mount(argument, &mounted, NULL) < 0) {
		kr_doctor_begin(doctor, argument);
		kr_doctor_found(doctor, KR_FINDING_PROBLEM, "mount", "mount it with kairanfs", "%s", kr_fail_reason());
	} else {
		kr_doctor_mount(doctor, &mounted);
		kr_mounted_fini(&mounted);
	}
}

static void sum_up(const struct kr_doctor *doctor)
{
	unsigned warnings = doctor->count[KR_FINDING_WARNING], problems = doctor->count[KR_FINDING_PROBLEM];

	if (doctor->findings) {
		json_dumpf(doctor->findings, stdout, JSON_INDENT(2));
		printf("\n");
	} else if (!warnings && !problems) {
		printf("nothing to do\n");
	} else {
		printf("%u problem%s, %u warning%s\n", problems, problems == 1 ? "" : "s", warnings,
			warnings == 1 ? "" : "s");
	}
}

int kr_tool_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		KR_TOOL_PROOF_OPTIONS,
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct kr_tool_proof proof = {0};
	struct kr_doctor doctor = {0};
	int option, code = -1;
	bool json = false;

	while (code < 0 && (option = getopt_long(argc, argv, "jk:h", options, NULL)) != -1) {
		if (option == 'j')
			json = true;
		else
			code = kr_tool_proof_take(&proof, option, usage);
	}
	if (code >= 0)
		return code;
	if (argc - optind > 1 || (proof.key && proof.munge)) {
		fprintf(stderr, "kairan: %s\n",
			argc - optind > 1 ? "too many arguments" :
					    "--key and --munge are two ways to the same: choose one");
		return kr_tool_usage(usage, false);
	}
	if (json)
		doctor.findings = json_array();
	examine(&doctor, argv[optind], &proof);
	sum_up(&doctor);
	code = doctor.count[KR_FINDING_PROBLEM] ? EXIT_FAILURE : KR_EXIT_OK;
	json_decref(doctor.findings);
	free(doctor.about);
	return kr_tool_printed(code);
}
