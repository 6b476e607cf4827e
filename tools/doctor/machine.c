/* kairan doctor: the kernel and FUSE of this machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/util.h"
#include "tools/doctor/checks.h"

const char *kr_kernel_lacks(const char *release)
{
	unsigned major = 0, minor = 0, version;

	sscanf(release, "%u.%u", &major, &minor);
	version = major * 1000 + minor;
	if (version < 6006)
		return "before 6.6 a file that is open for reading and writing cannot be mapped with MAP_SHARED "
		       "(ENODEV) without the mount option shared_mmap; before 6.14 the kernel keeps no attributes, "
		       "so each stat(2) asks the mount's daemon";
	return version < 6014 ? "before 6.14 the kernel keeps no attributes, so each stat(2) asks the mount's daemon" :
				NULL;
}

static void check_kernel(struct kr_findings *findings)
{
	struct utsname name = {0};
	const char *lacks;

	uname(&name);
	lacks = kr_kernel_lacks(name.release);
	if (lacks)
		kr_findings_add(findings, KR_FINDING_WARNING, "kernel", "run a newer kernel where this matters",
			"Linux %s: %s", name.release, lacks);
	else
		kr_findings_add(findings, KR_FINDING_OK, "kernel", NULL,
			"Linux %s has all that a mount can use (attributes in the kernel, shared mappings)",
			name.release);
}

static void check_device(struct kr_findings *findings)
{
	KR_AUTO_FD int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		kr_findings_add(findings, KR_FINDING_OK, "fuse", NULL, "/dev/fuse can be opened");
	else
		kr_findings_add(findings, KR_FINDING_PROBLEM, "fuse",
			errno == EACCES || errno == EPERM ?
				"chmod 666 /dev/fuse; a container needs the device given (--device /dev/fuse)" :
				"modprobe fuse; a container needs the device given (--device /dev/fuse)",
			"nothing can be mounted: /dev/fuse: %s", strerror(errno));
}

/* Looks for a program in $PATH as execvp(3) does.  0, or -ENOENT. */
static int find_program(const char *name, struct stat *ret_stat)
{
	const char *path = getenv("PATH");
	KR_AUTO_FREE char *copy = kr_xstrdup(path ? path : "/bin:/usr/bin");
	char *rest = NULL;

	for (char *directory = strtok_r(copy, ":", &rest); directory; directory = strtok_r(NULL, ":", &rest)) {
		KR_AUTO_FREE char *file = NULL;

		if (asprintf(&file, "%s/%s", directory, name) < 0)
			abort();
		if (stat(file, ret_stat) == 0 && S_ISREG(ret_stat->st_mode))
			return 0;
	}
	return -ENOENT;
}

static void check_fusermount(struct kr_findings *findings)
{
	struct stat stat;

	if (find_program("fusermount3", &stat) < 0)
		kr_findings_add(findings, KR_FINDING_WARNING, "fusermount3", "install the package fuse3",
			"it is not in PATH: only root can mount");
	else if (stat.st_uid != 0 || !(stat.st_mode & S_ISUID))
		kr_findings_add(findings, KR_FINDING_WARNING, "fusermount3",
			"chown root fusermount3 && chmod u+s fusermount3, or install the package fuse3 anew",
			"it does not run as root (mode %04o): only root can mount", stat.st_mode & 07777);
	else
		kr_findings_add(findings, KR_FINDING_OK, "fusermount3", NULL, "users can mount");
}

void kr_doctor_machine(struct kr_findings *findings)
{
	check_kernel(findings);
	check_device(findings);
	check_fusermount(findings);
}
