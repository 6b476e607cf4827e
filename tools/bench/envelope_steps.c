/* See envelope_steps.h. */
#include "tools/bench/envelope_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/bench/bench_place.h"

/* Few files of each process say little, and nodes do not end at the same time. */
enum { ROUND_MS = 400, ROUND_MOST_MS = 4000, FILES_LEAST = 8, PIECE = 1 << 20 };

static const struct {
	const char *name;
	char kind; /* of the files: w that processes have written, c, s and r copies of them */
} steps[KR_ENVELOPE_STEPS] = {[KR_ENVELOPE_CREATE] = {"create", 'w'},
	[KR_ENVELOPE_STAT] = {"stat", 'w'},
	[KR_ENVELOPE_OPEN] = {"open", 'w'},
	[KR_ENVELOPE_REMOVE] = {"remove", 'w'},
	[KR_ENVELOPE_WRITE] = {"write", 'w'},
	[KR_ENVELOPE_COPY] = {"copy", 'c'},
	[KR_ENVELOPE_READ_SERVER] = {"read from the server", 'c'},
	[KR_ENVELOPE_READ_CACHE] = {"read from the cache", 'c'},
	[KR_ENVELOPE_READ_NODE] = {"read from another node", 'c'},
	[KR_ENVELOPE_COPY_SHARED] = {"copy", 's'},
	[KR_ENVELOPE_READ_SHARED] = {"read by all nodes", 's'},
	[KR_ENVELOPE_COPY_MIXED] = {"copy", 'r'},
	[KR_ENVELOPE_READ_WRITE] = {"read and write", 'r'}};

/* In memory that the processes share. */
struct shared {
	_Atomic bool go, stop;
	_Atomic unsigned measured; /* processes whose result is complete */
	struct result {
		uint64_t done, ns;
		int err;
	} results[KR_ENVELOPE_PROCESSES_MAX];
};

static char piece[PIECE];

const char *kr_envelope_step_name(enum kr_envelope_step step)
{
	return steps[step].name;
}

bool kr_envelope_copies(enum kr_envelope_step step)
{
	return step == KR_ENVELOPE_COPY || step == KR_ENVELOPE_COPY_SHARED || step == KR_ENVELOPE_COPY_MIXED;
}

/* --- in a process ----------------------------------------------------------------------------- */

static int write_one(int dir, const char *name, uint64_t size, bool create_only)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return -errno;
	for (uint64_t at = 0; !create_only && at < size && err == 0; at += PIECE)
		err = kr_pwrite_full(fd, piece, KR_MIN((uint64_t)PIECE, size - at), at);
	if (kr_close(fd) < 0 && err == 0)
		err = -errno;
	return err;
}

static int read_one(int dir, const char *name, bool open_only)
{
	KR_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t count = open_only ? 0 : 1;

	if (fd < 0)
		return -errno;
	while (count > 0)
		count = read(fd, piece, PIECE);
	return count < 0 ? -errno : 0;
}

/* No byte of what the server has copied is on this node. */
static int copy_one(int dir, const char *from, const char *to, uint64_t size)
{
	KR_AUTO_FD int in = openat(dir, from, O_RDONLY | O_CLOEXEC);
	KR_AUTO_FD int out = openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (in < 0 || out < 0)
		return -errno;
	for (uint64_t done = 0; done < size;) {
		ssize_t count = copy_file_range(in, NULL, out, NULL, size - done, 0);

		if (count <= 0)
			return count < 0 ? -errno : -EIO;
		done += (uint64_t)count;
	}
	return 0;
}

static void drop_pages(int dir, const char *name)
{
	KR_AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

struct name {
	char text[48];
};

static struct name name_of(char kind, unsigned owner, unsigned process, uint64_t number)
{
	struct name name;

	snprintf(name.text, sizeof(name.text), "%c%u.%u.%llu", kind, owner, process, (unsigned long long)number);
	return name;
}

static int do_one(int dir, const struct kr_envelope_task *task, unsigned process, uint64_t number)
{
	const struct name file = name_of(steps[task->step].kind, task->owner, process, number);
	struct stat ignored;
	int err;

	switch (task->step) {
	case KR_ENVELOPE_CREATE:
	case KR_ENVELOPE_WRITE:
		return write_one(dir, file.text, task->size, task->step == KR_ENVELOPE_CREATE);
	case KR_ENVELOPE_STAT:
		return fstatat(dir, file.text, &ignored, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	case KR_ENVELOPE_REMOVE:
		return unlinkat(dir, file.text, 0) < 0 ? -errno : 0;
	case KR_ENVELOPE_COPY:
	case KR_ENVELOPE_COPY_SHARED:
	case KR_ENVELOPE_COPY_MIXED:
		return copy_one(dir, name_of('w', task->owner, process, number).text, file.text, task->size);
	case KR_ENVELOPE_READ_WRITE:
		err = read_one(dir, file.text, false);
		return err ? err : write_one(dir, name_of('x', task->owner, process, number).text, task->size, false);
	default:
		return read_one(dir, file.text, task->step == KR_ENVELOPE_OPEN);
	}
}

static bool is_over(const struct kr_envelope_task *task, uint64_t begin_ns, uint64_t done)
{
	const bool to_the_end = kr_envelope_copies(task->step);
	const uint64_t limit_ms = done < FILES_LEAST ? ROUND_MOST_MS : ROUND_MS;

	return !to_the_end && kr_clock_ns() - begin_ns > limit_ms * KR_NS_PER_MS;
}

static void work(int dir, const struct kr_envelope_task *task, unsigned process, struct shared *shared)
{
	struct result *result = &shared->results[process];
	const uint64_t count = task->counts[process];
	uint64_t begin_ns, i;

	for (i = 0; task->step == KR_ENVELOPE_READ_CACHE && i < count; i++)
		drop_pages(dir, name_of('c', task->owner, process, i).text);
	while (!atomic_load(&shared->go) && !atomic_load(&shared->stop))
		kr_sleep_ms(1);
	begin_ns = kr_clock_ns();
	for (i = 0; i < count && result->err == 0 && !atomic_load(&shared->stop) && !is_over(task, begin_ns, i); i++)
		result->err = do_one(dir, task, process, i);
	result->done = i;
	result->ns = kr_clock_ns() - begin_ns;
	/* It goes on while others are measured: they would be faster without it. */
	atomic_fetch_add(&shared->measured, 1);
	for (; i < count && result->err == 0 && !atomic_load(&shared->stop); i++) {
		if (atomic_load(&shared->measured) == task->processes)
			break;
		result->err = do_one(dir, task, process, i);
	}
}

/* --- all processes ---------------------------------------------------------------------------- */

static int reap(struct shared *shared, const pid_t *children, unsigned started)
{
	int err = 0;

	for (unsigned i = 0; i < started; i++) {
		int status = 0;

		while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
			atomic_store(&shared->stop, kr_bench_stopped != 0);
		if (status && err == 0)
			err = kr_fail(-EINTR, "a process has ended early");
	}
	return err;
}

static int run_all(int dir, const struct kr_envelope_task *task, struct shared *shared)
{
	pid_t children[KR_ENVELOPE_PROCESSES_MAX];
	unsigned started = 0;
	int err = 0, ended;

	for (; started < task->processes && err == 0; started++) {
		children[started] = fork();
		if (children[started] == 0) {
			work(dir, task, started, shared);
			_exit(0);
		}
		if (children[started] < 0) {
			err = kr_fail_errno(-errno, "cannot start a process");
			break;
		}
	}
	atomic_store(err ? &shared->stop : &shared->go, true);
	ended = reap(shared, children, started);
	return err ? err : ended;
}

static int take_results(const struct shared *shared, struct kr_envelope_task *task)
{
	task->rate = 0;
	for (unsigned i = 0; i < task->processes; i++) {
		const struct result *result = &shared->results[i];

		if (result->err)
			return kr_fail_errno(result->err, "cannot %s a file", steps[task->step].name);
		if (task->step != KR_ENVELOPE_READ_WRITE)
			task->counts[i] = result->done;
		task->rate += (double)result->done * (double)KR_NS_PER_S / (double)KR_MAX(result->ns, UINT64_C(1));
	}
	return 0;
}

/* Bytes that cannot be compressed. */
static void fill_piece(void)
{
	for (size_t done = 0; done < sizeof(piece) && piece[PIECE - 1] == 0;)
		done += (size_t)KR_MAX(getrandom(piece + done, sizeof(piece) - done, 0), (ssize_t)0);
}

int kr_envelope_do(int dir, struct kr_envelope_task *task)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int err;

	if (shared == MAP_FAILED)
		return kr_fail_errno(-errno, "no memory");
	fill_piece();
	err = run_all(dir, task, shared);
	if (err == 0)
		err = take_results(shared, task);
	munmap(shared, sizeof(*shared));
	return kr_bench_stopped ? kr_fail(-EINTR, "interrupted") : err;
}
