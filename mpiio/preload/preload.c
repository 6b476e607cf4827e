/* libkairan-mpiio.so, the one library that programs preload: it stands before the MPI library's MPI_File_* and
 * PMPI_File_*, whichever MPI library that is, and passes the calls on.
 *
 * At a process's first call of MPI-IO it finds the MPI library that the call would have reached.  It loads the build of
 * kairan's MPI-IO for it, libkairan-mpiio-NAME.so in its own folder.  Without one the calls go to the MPI library,
 * and a line on standard error says why.  A process that calls no MPI-IO never gets that far: this library needs libc
 * only, and runs no code when it is loaded.
 *
 * It is compiled for no MPI library and knows none's types.  Every argument of these functions is an integer or a
 * pointer, and there are six at most.  64-bit platforms pass each in a machine word of its own, so all functions here
 * take six words and pass them on as they came.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "mpiio/twophase/calls.h"

_Static_assert(sizeof(uintptr_t) == 8, "a word holds any argument");

typedef uintptr_t word;
typedef int function(word, word, word, word, word, word);

enum call {
#define CALL(name) CALL_##name,
	KR_CALLS(CALL) KR_LARGE_CALLS(CALL) CALLS
#undef CALL
};

static const char *const names[CALLS] = {
#define NAME(name) [CALL_##name] = "PMPI_" #name,
	KR_CALLS(NAME) KR_LARGE_CALLS(NAME)
#undef NAME
};

static function *targets[CALLS];
static struct link_map *mpi; /* the MPI library */
static void *mpi_handle;

/* The MPI libraries that a build may exist for, by the name that says which binary interface a library has. */
static const struct {
	const char *soname, *build;
} known[] = {
	{"libmpi.so.40", "openmpi"},
	{"libmpi.so.12", "mpich"}, /* also of libraries derived from MPICH, by an agreement of their makers */
	{"libmpich.so.12", "mpich"},
};

/* One process of each node prints messages, because each node may have other errors.  Launchers number a node's
 * processes. */
static bool speaks(void)
{
	static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
	const char *mode = getenv("KAIRAN_MPIIO");

	if (mode && strcmp(mode, "off") == 0)
		return false;
	for (size_t i = 0; i < KR_ARRAY_SIZE(variables); i++) {
		const char *rank = getenv(variables[i]);

		if (rank)
			return strcmp(rank, "0") == 0;
	}
	return true;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char host[64] = "", reason[1024];
	va_list arguments;

	if (!speaks())
		return;
	gethostname(host, sizeof(host) - 1);
	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	fprintf(stderr, "libkairan-mpiio: MPI-IO on %s is left to the MPI library: %s\n", host, reason);
}

/* NAME in the first library that has it, among those too that the program has loaded with RTLD_LOCAL, as interpreters
 * do. */
static void *find_anywhere(const char *name)
{
	void *found = NULL;

	for (struct link_map *map = _r_debug.r_map; map && !found; map = map->l_next) {
		void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);

		if (!handle)
			continue;
		found = dlsym(handle, name);
		dlclose(handle);
	}
	return found;
}

/* No tool wraps the function that is looked for, so the library that defines it is the MPI library.  With RTLD_GLOBAL
 * the build for it finds the MPI library's functions, also where the program has used RTLD_LOCAL. */
static bool find_mpi(void)
{
	static const char *const probe = "PMPI_Get_version";
	void *address = dlsym(RTLD_NEXT, probe);
	Dl_info info;

	if (!address)
		address = find_anywhere(probe);
	if (!address || !dladdr1(address, &info, (void **)&mpi, RTLD_DL_LINKMAP))
		return false;
	mpi_handle = dlopen(mpi->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
	return mpi_handle != NULL;
}

/* The function NAME that the program would call without this library. */
static void *find_own(const char *name)
{
	void *address = dlsym(RTLD_NEXT, name);

	return address ? address : dlsym(mpi_handle, name);
}

/* The name of the build for the MPI library, or NULL. */
static const char *choose_build(void)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(known); i++) {
		if (dlopen(known[i].soname, RTLD_LAZY | RTLD_NOLOAD) == mpi_handle)
			return known[i].build;
	}
	return NULL;
}

/* The library libkairan-mpiio-BUILD.so beside this one, or NULL after a message. */
static void *load_build(const char *build)
{
	const char *(*begin)(void *(*find)(const char *));
	const char *slash, *missing;
	char path[4096];
	Dl_info self;
	void *handle;

	if (!dladdr(names, &self))
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*slibkairan-mpiio-%s.so", slash ? (int)(slash + 1 - self.dli_fname) : 0,
		self.dli_fname, build);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&begin = handle ? dlsym(handle, "kr_mpi_library_start") : NULL;
	if (!begin) {
		say("%s", dlerror());
		return NULL;
	}
	missing = begin(find_own);
	if (missing)
		say("%s has no %s", mpi->l_name, missing);
	return missing ? NULL : handle;
}

static void start(void)
{
	const char *build;
	void *handle = NULL;

	if (!find_mpi()) {
		fprintf(stderr, "libkairan-mpiio: MPI-IO is called without an MPI library\n");
		abort();
	}
	build = choose_build();
	if (build)
		handle = load_build(build);
	else
		say("%s is neither libmpi.so.40 (Open MPI) nor libmpi.so.12 or libmpich.so.12 (MPICH)", mpi->l_name);
	for (size_t i = 0; i < CALLS; i++) {
		void *own = find_own(names[i]), *ours = handle ? dlsym(handle, names[i]) : NULL;

		targets[i] = (function *)(own && ours ? ours : own);
	}
}

static function *target(enum call call)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
	if (!targets[call]) {
		fprintf(stderr, "libkairan-mpiio: %s has no %s\n", mpi->l_name, names[call]);
		abort();
	}
	return targets[call];
}

/* Fortran's wrappers and tools call the PMPI name. */
#define DEFINE(name) \
	function PMPI_##name, MPI_##name __attribute__((alias("PMPI_" #name))); \
	int PMPI_##name(word a, word b, word c, word d, word e, word f) \
	{ \
		return target(CALL_##name)(a, b, c, d, e, f); \
	}
KR_CALLS(DEFINE)
KR_LARGE_CALLS(DEFINE)
