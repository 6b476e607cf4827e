/* kairan doctor: the command, which chooses the checks (tools/doctor). */
#include "tools/doctor/checks.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/base/find_mount.h"

static const char usage[] =
	"usage: kairan doctor [--json] [MOUNTPOINT | [--key FILE | --munge [--munge-socket PATH] [--munge-uid UID]] "
	"HOST[:PORT]]\n"
	"Looks for what makes a node or a server slow, unsafe or unreachable, and says what to do.\n"
	"Without an argument: this machine, and all mounts of kairanfs here. Changes nothing.\n"
	"Exit code: 0 no problem (warnings count for none), 1 a problem, 64 wrong arguments.\n";

static void examine_mount(const struct kr_mounted *mounted, void *context)
{
	kr_doctor_mount(context, mounted);
}

static void examine(struct kr_findings *findings, const char *argument, const struct kr_tool_proof *proof)
{
	struct kr_mounted mounted;

	if (argument && !kr_looks_like_path(argument)) {
		kr_findings_begin(findings, argument);
		kr_doctor_server(findings, argument, proof, NULL);
		return;
	}
	kr_findings_begin(findings, "this machine");
	kr_doctor_machine(findings);
	kr_doctor_slurm(findings);
	if (!argument) {
		if (kr_for_each_mount(examine_mount, findings) < 0)
			kr_findings_add(findings, KR_FINDING_PROBLEM, "mounts", "see that /proc is mounted", "%s",
				kr_fail_reason());
	} else if (kr_find_mount(argument, &mounted, NULL) < 0) {
		kr_findings_begin(findings, argument);
		kr_findings_add(
			findings, KR_FINDING_PROBLEM, "mount", "mount it with kairanfs", "%s", kr_fail_reason());
	} else {
		kr_doctor_mount(findings, &mounted);
		kr_mounted_fini(&mounted);
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
	struct kr_findings findings = {0};
	int option, code = -1;
	bool json = false;

	while (code < 0 && (option = kr_tool_option(argc, argv, "jk:h", options)) != -1) {
		if (option == 'j')
			json = true;
		else
			code = kr_tool_proof_take(&proof, option, usage);
	}
	if (code < 0)
		code = kr_tool_proof_end(&proof, argc - optind, usage);
	if (code >= 0)
		return code;
	if (json)
		findings.list = json_array();
	examine(&findings, argv[optind], &proof);
	code = kr_findings_end(&findings) ? EXIT_FAILURE : KR_EXIT_OK;
	return kr_tool_printed(code);
}
