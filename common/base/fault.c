/* Fault points: see fault.h.  The environment is read once, at the first pass of any point. */
#include "common/base/fault.h"

#ifdef KR_FAULTS

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum { FAULTS_MAX = 16 };

struct fault {
	char point[64], action[32];
	unsigned count; /* 0: every pass */
	_Atomic unsigned passes;
};

static struct fault faults[FAULTS_MAX];
static size_t fault_count;
static const char *fault_file; /* NULL: the list above */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A test whose fault cannot be read must not pass because nothing happens. */
static void refuse(const char *item)
{
	fprintf(stderr, "KR_FAULT: cannot read \"%s\" (point:action[:count])\n", item);
	abort();
}

static void read_environment(void)
{
	const char *text = getenv("KR_FAULT");
	KR_AUTO_FREE char *copy = kr_xstrdup(text ? text : "");
	char *rest = copy, *item;

	if (text && text[0] == '@') {
		fault_file = text + 1;
		return;
	}
	while ((item = strsep(&rest, ",")) != NULL) {
		struct fault *fault = &faults[fault_count];

		if (!*item)
			continue;
		if (fault_count == FAULTS_MAX ||
			sscanf(item, "%63[^:]:%31[^:]:%u", fault->point, fault->action, &fault->count) < 2)
			refuse(item);
		fault_count++;
	}
}

static void delay(const char *milliseconds)
{
	unsigned long ms = strtoul(milliseconds, NULL, 10);
	struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int act(const char *action)
{
	if (strcmp(action, "kill") == 0)
		raise(SIGKILL);
	else if (strcmp(action, "stop") == 0)
		raise(SIGSTOP);
	else if (strcmp(action, "eio") == 0)
		return -EIO;
	else if (strcmp(action, "enospc") == 0)
		return -ENOSPC;
	else if (strcmp(action, "edquot") == 0)
		return -EDQUOT;
	else if (strncmp(action, "delay-", 6) == 0)
		delay(action + 6);
	else
		refuse(action);
	return 0;
}

/* Reads the fault of POINT from the file, which may change at any time.  False: the file has none. */
static bool read_file(const char *point, struct fault *ret_fault)
{
	FILE *file = fopen(fault_file, "re");
	int fields =
		file ? fscanf(file, "%63[^:]:%31[^:\n]:%u", ret_fault->point, ret_fault->action, &ret_fault->count) : 0;

	if (file)
		fclose(file);
	return fields >= 2 && strcmp(ret_fault->point, point) == 0;
}

/* A thread that is held follows the order that comes next. */
static int pass_file(const char *point)
{
	struct fault fault = {.count = 0};

	while (read_file(point, &fault)) {
		if (strcmp(fault.action, "hold") != 0)
			return fault.count == 1 && unlink(fault_file) < 0 ?
				0 :
				act(fault.action); /* else another thread has taken the file */
		delay("20");
		fault.count = 0;
	}
	return 0;
}

int kr_fault_pass(const char *point)
{
	int err = 0;

	pthread_once(&once, read_environment);
	if (fault_file)
		err = pass_file(point);
	for (size_t i = 0; i < fault_count && !err; i++) {
		struct fault *fault = &faults[i];

		if (strcmp(fault->point, point) != 0)
			continue;
		if (fault->count == 0 || atomic_fetch_add(&fault->passes, 1) + 1 == fault->count)
			err = act(fault->action);
	}
	return err ? kr_fail_errno(err, "fault point %s", point) : 0;
}

#endif
