/* kairan bench: how fast one directory is, of a mount or of the local disk. */
#ifndef KR_TOOLS_BENCH_MEASURE_H
#define KR_TOOLS_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum kr_bench_rate {
	KR_BENCH_WRITE_CLOSE, /* bytes per second, up to here */
	KR_BENCH_WRITE_FSYNC,
	KR_BENCH_READ_COLD,
	KR_BENCH_READ_WARM,
	KR_BENCH_CREATE, /* files per second, from here on */
	KR_BENCH_STAT,
	KR_BENCH_READ,
	KR_BENCH_REMOVE,
	KR_BENCH_RATES
};
/* The small files: at most so many, of so many bytes. */
enum { KR_BENCH_FILES = 1000, KR_BENCH_FILE_BYTES = 4096 };

struct kr_bench_place {
	const char *name; /* in progress: "mount", "local" */
	int fd;           /* an empty directory, which the measurement fills */
	/* A file of a mount is cold if the server has just made it as a copy; a local one, if its pages are dropped. */
	bool is_mount;
	/* Called many times.  False: end with -EINTR. */
	bool (*go_on)(const struct kr_bench_place *place, enum kr_bench_rate rate, double share);
};

/* A file size for which a write takes a few seconds, at most LIMIT. */
int kr_bench_size(const struct kr_bench_place *place, uint64_t limit, uint64_t *ret_size);
/* Rates of a file of SIZE bytes, and of small ones.  -errno with a reason. */
int kr_bench_measure(const struct kr_bench_place *place, uint64_t size, double ret_rates[KR_BENCH_RATES]);
/* Removes what a measurement has left in the directory. */
void kr_bench_clear(int fd);

#endif
