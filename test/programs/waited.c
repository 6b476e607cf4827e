/* waited FILE COMMAND...: runs COMMAND, and appends to FILE for how many seconds it was neither on a processor nor
 * waiting for one.  A program that does not sleep has waited for files then. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Of a process that has ended, and was not waited for. */
static double busy(pid_t pid)
{
	unsigned long long ran_ns, runnable_ns;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%llu %llu", &ran_ns, &runnable_ns) != 2) {
		perror(path);
		exit(1);
	}
	fclose(file);
	return (double)(ran_ns + runnable_ns) / 1e9;
}

int main(int argc, char **argv)
{
	const double began = now();
	siginfo_t info;
	FILE *file;
	pid_t pid;

	if (argc < 3)
		return 2;
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (pid < 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0) {
		perror(argv[2]);
		return 1;
	}
	file = fopen(argv[1], "ae");
	if (!file || fprintf(file, "%.6f\n", now() - began - busy(pid)) < 0 || fclose(file) != 0) {
		perror(argv[1]);
		return 1;
	}
	return info.si_code == CLD_EXITED ? info.si_status : 1;
}
