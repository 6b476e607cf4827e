/* kairan doctor: whether Slurm lets the job's epilogue end.  Says nothing where there is no Slurm, or no job.conf. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "tools/doctor/checks.h"

/* As conf/job-epilogue has it. */
enum { TIMEOUT_DEFAULT_S = 600, CONF_MAX = 65536, UNLIMITED_S = 65534 };

/* TIMEOUT of job.conf, which is a shell's: the last plain assignment counts.  0: there is no job.conf. */
static unsigned long epilogue_timeout(void)
{
	const char *path = getenv("KAIRAN_JOB_CONF");
	unsigned long seconds = TIMEOUT_DEFAULT_S;
	KR_AUTO_FREE char *text = NULL;
	char *rest = NULL;
	size_t length;

	if (kr_read_file(AT_FDCWD, path ? path : "/etc/kairan/job.conf", CONF_MAX, &text, &length) < 0)
		return 0;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		sscanf(line, " TIMEOUT=%lu", &seconds);
	return seconds;
}

/* PrologEpilogTimeout.  0: no answer, or no limit. */
static unsigned long slurm_limit(void)
{
	FILE *config = popen("timeout 5 scontrol show config 2>/dev/null", "re");
	unsigned long limit = 0;
	char line[1024];

	while (config && fgets(line, sizeof(line), config))
		sscanf(line, "PrologEpilogTimeout = %lu", &limit);
	if (config)
		pclose(config);
	return limit == UNLIMITED_S ? 0 : limit;
}

void kr_doctor_slurm(struct kr_findings *findings)
{
	unsigned long timeout = epilogue_timeout(), limit = timeout ? slurm_limit() : 0;

	if (!limit)
		return;
	/* If a program still uses the mount, the epilogue flushes a second time. */
	if (limit < 2 * timeout)
		kr_findings_add(findings, KR_FINDING_WARNING, "slurm",
			"set PrologEpilogTimeout in slurm.conf to more than twice the TIMEOUT in job.conf, or lower "
			"that",
			"Slurm kills the epilogue after %lu s, which may take twice its TIMEOUT of %lu s: Slurm "
			"drains the node then, and nobody is told which files are not on the server",
			limit, timeout);
	else
		kr_findings_add(findings, KR_FINDING_OK, "slurm", NULL,
			"it gives the epilogue %lu s, enough for %lu s twice", limit, timeout);
}
