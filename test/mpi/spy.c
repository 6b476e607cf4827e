// Which threads call the MPI library: stands before it for the functions that the layer exchanges data and completes requests by.
// The program's symbols are exported, so that the layer's calls come here.
#include "spy.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static int main_calls, other_calls, together, sent;

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

SPY_COUNTED(Isend, sent, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, to, tag, c, r))
SPY(Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, from, tag, c, r))
SPY(Wait, (MPI_Request *r, MPI_Status *s), (r, s))
SPY(Waitany, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s))
SPY(Waitall, (int n, MPI_Request r[], MPI_Status *s), (n, r, s))
SPY(Grequest_complete, (MPI_Request r), (r))
SPY(Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))

SPY_TOGETHER(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
SPY_TOGETHER(Allreduce, (const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (b, to, n, t, op, c))
SPY_TOGETHER(Allgather, (const void *b, int n, MPI_Datatype t, void *to, int m, MPI_Datatype u, MPI_Comm c), (b, n, t, to, m, u, c))
SPY_TOGETHER(Allgatherv, (const void *b, int n, MPI_Datatype t, void *to, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
	(b, n, t, to, m, d, u, c))
SPY_TOGETHER(Alltoall, (const void *b, int n, MPI_Datatype t, void *to, int m, MPI_Datatype u, MPI_Comm c), (b, n, t, to, m, u, c))
SPY_TOGETHER(Alltoallv, (const void *b, const int n[], const int d[], MPI_Datatype t, void *to, const int m[], const int e[], MPI_Datatype u, MPI_Comm c),
	(b, n, d, t, to, m, e, u, c))
