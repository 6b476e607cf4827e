/* See real.h. */
#include "mpiio/twophase/real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct kr_real table;

static void *find(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (function)
		return function;
	fprintf(stderr,
		"libkairan-mpiio: %s is in no MPI library behind this one (is it linked after MPI, or built for "
		"another MPI?)\n",
		name);
	abort();
}

static void load(void)
{
#define KR_REAL_LOAD(name) table.name = (__typeof__(table.name))find("PMPI_" #name);
	KR_REAL_LIST(KR_REAL_LOAD)
#undef KR_REAL_LOAD
}

const struct kr_real *kr_real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return &table;
}
