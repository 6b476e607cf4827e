// Which threads call the MPI library: stands before it for the functions that the layer exchanges data and completes
// requests by. The program's symbols are exported, so that the layer's calls come here.
#include "spy.h"

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int main_calls, other_calls, together, sent, posted, received;
static void (*before_data)(void);

static void *note(const char *name)
{
	void *real = dlsym(RTLD_NEXT, name);
	if (!real)
		abort();
	__atomic_add_fetch(gettid() == getpid() ? &main_calls : &other_calls, 1, __ATOMIC_RELAXED);
	return real;
}

int spy_main_calls(void)
{
	return __atomic_load_n(&main_calls, __ATOMIC_RELAXED);
}

int spy_other_calls(void)
{
	return __atomic_load_n(&other_calls, __ATOMIC_RELAXED);
}

int spy_isends(void)
{
	return __atomic_load_n(&sent, __ATOMIC_RELAXED);
}

int spy_irecvs(void)
{
	return __atomic_load_n(&posted, __ATOMIC_RELAXED);
}

int spy_received(void)
{
	return __atomic_load_n(&received, __ATOMIC_ACQUIRE);
}

void spy_before_data(void (*hook)(void))
{
	before_data = hook;
}

int spy_collective_calls(void)
{
	return __atomic_load_n(&together, __ATOMIC_RELAXED);
}

#define SPY(name, parameters, arguments) \
	int PMPI_##name parameters \
	{ \
		__typeof__(PMPI_##name) *real = (__typeof__(PMPI_##name) *)note("PMPI_" #name); \
		return real arguments; \
	}

#define SPY_COUNTED(name, counter, parameters, arguments) \
	int PMPI_##name parameters \
	{ \
		__typeof__(PMPI_##name) *real = (__typeof__(PMPI_##name) *)note("PMPI_" #name); \
		__atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED); \
		return real arguments; \
	}
#define SPY_TOGETHER(name, parameters, arguments) SPY_COUNTED(name, together, parameters, arguments)

SPY_COUNTED(Isend, sent, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
	(b, n, t, to, tag, c, r))
SPY(Wait, (MPI_Request * r, MPI_Status *s), (r, s))
SPY(Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
SPY(Recv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (b, n, t, from, tag, c, s))
SPY(Get_count, (const MPI_Status *s, MPI_Datatype t, int *n), (s, t, n))
SPY(Error_class, (int code, int *class), (code, class))
SPY(Query_thread, (int *level), (level))
SPY(Grequest_complete, (MPI_Request r), (r))
SPY(Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))

SPY_TOGETHER(Reduce, (const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),
	(b, to, n, t, op, root, c))
SPY_TOGETHER(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
SPY_TOGETHER(Allreduce, (const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (b, to, n, t, op, c))
SPY_TOGETHER(Allgather, (const void *b, int n, MPI_Datatype t, void *to, int m, MPI_Datatype u, MPI_Comm c),
	(b, n, t, to, m, u, c))
SPY_TOGETHER(Allgatherv,
	(const void *b, int n, MPI_Datatype t, void *to, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
	(b, n, t, to, m, d, u, c))
SPY_TOGETHER(Alltoall, (const void *b, int n, MPI_Datatype t, void *to, int m, MPI_Datatype u, MPI_Comm c),
	(b, n, t, to, m, u, c))
SPY_TOGETHER(Alltoallv,
	(const void *b, const int n[], const int d[], MPI_Datatype t, void *to, const int m[], const int e[],
		MPI_Datatype u, MPI_Comm c),
	(b, n, d, t, to, m, e, u, c))

// ---- messages that are here ----

enum { UNDER_WAY_MAX = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Request under_way[UNDER_WAY_MAX]; // receives
static int under_way_count;

int PMPI_Issend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
	__typeof__(PMPI_Issend) *real = (__typeof__(PMPI_Issend) *)note("PMPI_Issend");
	if (before_data)
		before_data();
	return real(b, n, t, to, tag, c, r);
}

int PMPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
	__typeof__(PMPI_Irecv) *real = (__typeof__(PMPI_Irecv) *)note("PMPI_Irecv");
	int rc = real(b, n, t, from, tag, c, r);
	pthread_mutex_lock(&lock);
	if (under_way_count == UNDER_WAY_MAX)
		abort();
	under_way[under_way_count++] = *r;
	pthread_mutex_unlock(&lock);
	__atomic_add_fetch(&posted, 1, __ATOMIC_RELAXED);
	return rc;
}

// A request has ended: if it was a receive, its message is here.
static void ended(MPI_Request request)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < under_way_count; i++) {
		if (under_way[i] == request) {
			under_way[i] = under_way[--under_way_count];
			__atomic_add_fetch(&received, 1, __ATOMIC_RELEASE);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static MPI_Request *copy_of(const MPI_Request r[], int n)
{
	MPI_Request *copy = calloc((size_t)n + 1, sizeof *copy);
	if (!copy)
		abort();
	memcpy(copy, r, (size_t)n * sizeof *copy);
	return copy;
}

int PMPI_Waitany(int n, MPI_Request r[], int *i, MPI_Status *s)
{
	__typeof__(PMPI_Waitany) *real = (__typeof__(PMPI_Waitany) *)note("PMPI_Waitany");
	MPI_Request *before = copy_of(r, n);
	int rc = real(n, r, i, s);
	if (*i != MPI_UNDEFINED)
		ended(before[*i]);
	free(before);
	return rc;
}

int PMPI_Testany(int n, MPI_Request r[], int *i, int *flag, MPI_Status *s)
{
	__typeof__(PMPI_Testany) *real = (__typeof__(PMPI_Testany) *)note("PMPI_Testany");
	MPI_Request *before = copy_of(r, n);
	int rc = real(n, r, i, flag, s);
	if (*flag && *i != MPI_UNDEFINED)
		ended(before[*i]);
	free(before);
	return rc;
}

int PMPI_Waitall(int n, MPI_Request r[], MPI_Status *s)
{
	__typeof__(PMPI_Waitall) *real = (__typeof__(PMPI_Waitall) *)note("PMPI_Waitall");
	MPI_Request *before = copy_of(r, n);
	int rc = real(n, r, s);
	for (int i = 0; i < n; i++)
		if (before[i] != MPI_REQUEST_NULL)
			ended(before[i]);
	free(before);
	return rc;
}
