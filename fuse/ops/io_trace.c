/* See io_trace.h.
 *
 * `lock` guards the sums (struct interval) and nothing else.  The loop takes a full interval out from under the lock
 * and hands it to a job in the pool, one at a time; the file belongs to that job meanwhile. */
#include "fuse/ops/io_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/table.h"
#include "common/base/text.h"
#include "fuse/base/local_dir.h"
#include "fuse/base/loop.h"
#include "fuse/base/options.h"
#include "fuse/names/inode_table.h"
#include "fuse/ops/kernel_requests.h"
#include "fuse/ops/load_samples.h"
#include "fuse/ops/process.h"

enum { INTERVAL_MS = 5000, YOUNG_NS = 2000000000, LOOK_NS = 1000000, OTHERS = -1, LATEST = 8 };
#define FILE_MAX (UINT64_C(1) << 30)

/* The latest reads or writes.  The kernel reads ahead with several requests at a time, which are answered in any order;
 * so two are sequential where one begins at the end of the other, whichever comes first. */
struct latest {
	struct range {
		uint64_t begin, end;
		bool alone; /* not sequential yet */
	} ranges[LATEST];   /* at first 0 to 0: what begins the file is sequential */
	unsigned next;
};

/* What one process has done with one file. */
struct use {
	struct kr_table_link link;
	uint64_t node;    /* of the kernel; 0: files beyond KR_IO_TRACE_FILES */
	struct kr_fid id; /* length 0: not known */
	char *path;       /* owned; NULL: not known */
	uint64_t creates, opens, reads, read_bytes, read_sequential, from_node, from_server, writes, written_bytes,
		written_sequential, copied_from, copied_to, end;
	struct latest latest_reads, latest_writes;
	uint64_t first_ns, last_ns, took_ns;
};

struct process {
	struct kr_table_link link;
	int pid;
	uint32_t uid;
	struct kr_process is;
	char *cgroup;
	uint64_t looked_ns; /* when IS was read last */
	uint64_t first_ns, last_ns;
	uint64_t requests[KR_IO_TRACE_KINDS], took_ns[KR_IO_TRACE_KINDS], waited_ns[KR_WAITS];
	struct kr_table uses;
};

struct interval {
	struct kr_table processes;
	size_t process_count, use_count;
};

struct kr_io_trace {
	struct kr_mount *mount;
	_Atomic bool on;
	pthread_mutex_t lock;
	struct interval *now; /* not NULL while it is on */
	struct kr_task full;

	/* Loop thread. */
	struct kr_load_samples *loads;
	uv_timer_t timer;
	FILE *file;          /* the job's while `job.interval`; NULL: it is off */
	uint64_t started_ns; /* kr_clock_ns */
	bool again, stop;    /* when the job is done: writes once more; ends */
	char error[256];     /* why it has ended by itself; "" */
	struct job {
		uv_work_t work;
		struct interval *interval; /* NULL: no job */
		char *loads;               /* owned, NULL: none */
		int err;
	} job;
};

/* --- intervals -------------------------------------------------------------------------------- */

static struct interval *interval_new(void)
{
	struct interval *interval = kr_xcalloc(1, sizeof(*interval));

	kr_table_init(&interval->processes);
	return interval;
}

static void process_free(struct process *process)
{
	struct use *use;

	KR_TABLE_FOR_EACH(use, &process->uses, link) {
		free(use->path);
		free(use);
	}
	kr_table_fini(&process->uses);
	free(process->cgroup);
	free(process);
}

static void interval_free(struct interval *interval)
{
	struct process *process;

	if (!interval)
		return;
	KR_TABLE_FOR_EACH(process, &interval->processes, link)
		process_free(process);
	kr_table_fini(&interval->processes);
	free(interval);
}

/* --- adding ----------------------------------------------------------------------------------- */

static struct process *find_process(struct interval *interval, int pid)
{
	return KR_TABLE_FIND(
		struct process, process, &interval->processes, kr_hash_u64((uint64_t)pid), link, process->pid == pid);
}

static struct process *add_process(struct interval *interval, int pid, uint32_t uid, uint64_t now_ns)
{
	struct process *process = kr_xcalloc(1, sizeof(*process));

	process->pid = pid;
	process->uid = uid;
	process->first_ns = process->last_ns = now_ns;
	kr_table_init(&process->uses);
	kr_table_insert(&interval->processes, &process->link, kr_hash_u64((uint64_t)pid));
	interval->process_count++;
	return process;
}

static struct use *find_use(struct kr_io_trace *trace, struct process *process, uint64_t node, uint64_t now_ns)
{
	struct interval *interval = trace->now;
	struct use *use;

	KR_TABLE_FOR_EACH_OF(use, &process->uses, kr_hash_u64(node), link)
		if (use->node == node)
			return use;
	if (node && interval->use_count >= KR_IO_TRACE_FILES)
		return find_use(trace, process, 0, now_ns);
	use = kr_xcalloc(1, sizeof(*use));
	use->node = node;
	use->first_ns = now_ns;
	if (node && node != KR_INODE_BATCH_FILE) {
		kr_inode_fid(trace->mount->inodes, node, &use->id);
		use->path = kr_inode_path(trace->mount->inodes, &use->id);
	}
	kr_table_insert(&process->uses, &use->link, kr_hash_u64(node));
	interval->use_count++;
	return use;
}

static enum kr_io_trace_kind kind_of(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_OPEN:
	case FUSE_CREATE:
		return KR_IO_TRACE_OPEN;
	case FUSE_READ:
		return KR_IO_TRACE_READ;
	case FUSE_WRITE:
	case FUSE_FALLOCATE:
	case FUSE_COPY_FILE_RANGE:
		return KR_IO_TRACE_WRITE;
	case FUSE_FLUSH:
	case FUSE_FSYNC:
		return KR_IO_TRACE_SYNC;
	case FUSE_GETLK:
	case FUSE_SETLK:
	case FUSE_SETLKW:
		return KR_IO_TRACE_LOCK;
	default:
		return KR_IO_TRACE_NAMES;
	}
}

/* How many more bytes are sequential now that these have been read or written. */
static uint64_t find_sequential(struct latest *latest, uint64_t begin, uint64_t end)
{
	struct range *own = &latest->ranges[latest->next % LATEST], added = {begin, end, true};
	uint64_t bytes = 0;

	for (size_t i = 0; i < LATEST; i++) {
		struct range *range = &latest->ranges[i];

		if (range->end != begin && (range->begin != end || range->end == range->begin))
			continue;
		bytes += range->alone ? range->end - range->begin : 0;
		range->alone = added.alone = false;
	}
	*own = added;
	latest->next++;
	return bytes + (added.alone ? 0 : end - begin);
}

static void add_read(struct use *use, const struct kr_kernel_request *request)
{
	const uint64_t bytes = (uint64_t)request->bytes, end = request->offset + bytes;

	use->reads++;
	use->read_bytes += bytes;
	use->read_sequential += find_sequential(&use->latest_reads, request->offset, end);
	if (request->waited_ns[KR_WAIT_NODE])
		use->from_node += bytes;
	else if (request->waited_ns[KR_WAIT_SERVER])
		use->from_server += bytes;
	use->end = KR_MAX(use->end, end);
}

static void add_write(struct use *use, const struct kr_kernel_request *request)
{
	const uint64_t bytes = (uint64_t)request->bytes, end = request->offset + bytes;

	use->writes++;
	use->written_bytes += bytes;
	use->written_sequential += find_sequential(&use->latest_writes, request->offset, end);
	use->end = KR_MAX(use->end, end);
}

static void add_to_use(struct use *use, const struct kr_kernel_request *request, uint64_t now_ns)
{
	use->last_ns = now_ns;
	use->took_ns += request->took_ns;
	if (request->error)
		return;
	switch (request->header.opcode) {
	case FUSE_CREATE:
		use->creates++;
		break;
	case FUSE_OPEN:
		use->opens++;
		break;
	case FUSE_READ:
		add_read(use, request);
		break;
	case FUSE_WRITE:
		add_write(use, request);
		break;
	case FUSE_COPY_FILE_RANGE:
		use->copied_from += (uint64_t)request->bytes;
		break;
	default:
		break;
	}
}

/* [lock] */
static void add(
	struct kr_io_trace *trace, struct process *process, const struct kr_kernel_request *request, uint64_t now_ns)
{
	const enum kr_io_trace_kind kind = kind_of(request->header.opcode);
	const uint32_t opcode = request->header.opcode;
	const uint64_t node = opcode == FUSE_CREATE ? request->other : request->header.nodeid;
	uint64_t elsewhere_ns = 0;

	process->first_ns = KR_MIN(process->first_ns, now_ns - request->took_ns);
	process->last_ns = now_ns;
	process->requests[kind]++;
	process->took_ns[kind] += request->took_ns;
	for (size_t i = KR_WAIT_HERE + 1; i < KR_WAITS; i++) {
		process->waited_ns[i] += request->waited_ns[i];
		elsewhere_ns += request->waited_ns[i];
	}
	process->waited_ns[KR_WAIT_HERE] += request->took_ns - KR_MIN(elsewhere_ns, request->took_ns);
	if (kind != KR_IO_TRACE_NAMES && node)
		add_to_use(find_use(trace, process, node, now_ns - request->took_ns), request, now_ns);
	if (opcode == FUSE_COPY_FILE_RANGE && !request->error) {
		struct use *to = find_use(trace, process, request->other, now_ns - request->took_ns);

		to->last_ns = now_ns;
		to->copied_to += (uint64_t)request->bytes;
	}
}

/* A process may become another program at any time (execve); most do when they are young.  So /proc is asked at first,
 * and again whenever the process is twice as old as it was then. */
static bool should_look(const struct process *process, uint64_t now_ns)
{
	const uint64_t age_ns = now_ns - process->first_ns;

	if (process->pid <= 0)
		return false;
	return !process->looked_ns ||
		(age_ns < YOUNG_NS && age_ns > LOOK_NS && age_ns > 2 * (process->looked_ns - process->first_ns));
}

/* Whether a program can send such a request while it executes another one, which closes files and ends their locks. */
static bool may_execute(uint32_t opcode)
{
	return opcode == FUSE_FLUSH || opcode == FUSE_SETLK || opcode == FUSE_SETLKW;
}

/* [lock] The process of REQUEST, made if there is none.  *RET_LOOK: /proc should be asked about it. */
static struct process *process_of(struct interval *interval, const struct kr_kernel_request *request, uint64_t now_ns,
	bool *ret_look, bool *ret_first)
{
	struct process *process = find_process(interval, request->pid);

	if (!process && interval->process_count >= KR_IO_TRACE_PROCESSES)
		process = find_process(interval, OTHERS);
	if (!process)
		process = add_process(interval, interval->process_count < KR_IO_TRACE_PROCESSES ? request->pid : OTHERS,
			request->header.uid, now_ns - request->took_ns);
	*ret_first = !process->looked_ns;
	if (may_execute(request->header.opcode)) {
		*ret_look = process->pid > 0 && !process->is.command[0];
		return process;
	}
	*ret_look = should_look(process, now_ns);
	if (*ret_look)
		process->looked_ns = now_ns; /* other threads need not look, too */
	return process;
}

/* Without the lock: /proc is slow.  REQUEST has no reply yet, and execve may wait for that: so the look must not wait
 * for execve.  FIRST: for the first time in this interval. */
static void look(struct kr_io_trace *trace, const struct kr_kernel_request *request, bool first)
{
	KR_AUTO_FREE char *cgroup = first ? kr_process_cgroup(request->pid) : NULL;
	struct process *process;
	struct kr_process is;

	if (may_execute(request->header.opcode))
		kr_process_find_command(request->pid, &is);
	else
		kr_process_find(request->pid, &is);
	KR_SCOPED_LOCK(&trace->lock);
	process = trace->now ? find_process(trace->now, request->pid) : NULL;
	if (!process || !is.command[0])
		return;
	if (!is.start)
		is.start = process->is.start;
	process->is = is;
	if (!process->cgroup) {
		process->cgroup = cgroup;
		cgroup = NULL;
	}
}

void kr_io_trace_answered(struct kr_io_trace *trace, const struct kr_kernel_request *request)
{
	const uint64_t now_ns = request->arrived_ns + request->took_ns;
	bool looks = false, first = false, full = false;

	if (!trace || !atomic_load_explicit(&trace->on, memory_order_relaxed))
		return;
	pthread_mutex_lock(&trace->lock);
	if (trace->now) {
		add(trace, process_of(trace->now, request, now_ns, &looks, &first), request, now_ns);
		full = trace->now->use_count >= KR_IO_TRACE_FILES || trace->now->process_count >= KR_IO_TRACE_PROCESSES;
	}
	pthread_mutex_unlock(&trace->lock);
	if (looks)
		look(trace, request, first);
	if (full)
		kr_loop_post(trace->mount->kr_loop, &trace->full);
}

/* --- writing, in the pool --------------------------------------------------------------------- */

static void put_text(FILE *file, const char *bytes)
{
	KR_AUTO_FREE char *utf8 = kr_text_utf8(bytes);
	json_t *string = json_string(utf8);

	json_dumpf(string, file, JSON_ENCODE_ANY);
	json_decref(string);
}

static void put_us(FILE *file, const uint64_t *ns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fprintf(file, "%s%" PRIu64, i ? "," : ",[", ns[i] / 1000);
	fputc(']', file);
}

static uint64_t us_since_start(const struct kr_io_trace *trace, uint64_t ns)
{
	return ns > trace->started_ns ? (ns - trace->started_ns) / 1000 : 0;
}

static void write_use(const struct kr_io_trace *trace, const struct use *use)
{
	FILE *file = trace->file;
	const uint64_t figures[] = {use->creates, use->opens, use->reads, use->read_bytes, use->read_sequential,
		use->from_node, use->from_server, use->writes, use->written_bytes, use->written_sequential,
		use->copied_from, use->copied_to, use->end, us_since_start(trace, use->first_ns),
		us_since_start(trace, use->last_ns), use->took_ns / 1000};

	if (use->id.length)
		fprintf(file, "[\"F\",\"%016" PRIx64 "\",", kr_fid_hash(&use->id));
	else
		fputs("[\"F\",\"\",", file);
	put_text(file, use->path ? use->path : "");
	for (size_t i = 0; i < KR_ARRAY_SIZE(figures); i++)
		fprintf(file, ",%" PRIu64, figures[i]);
	fputs("]\n", file);
}

static void write_process(const struct kr_io_trace *trace, const struct process *process)
{
	const struct use *use;
	FILE *file = trace->file;

	fprintf(file, "[\"P\",%d,%" PRIu64 ",%" PRIu32 ",", process->pid, process->is.start, process->uid);
	put_text(file, process->is.command);
	fputc(',', file);
	put_text(file, process->cgroup ? process->cgroup : "");
	fprintf(file, ",%" PRIu64 ",%" PRIu64, us_since_start(trace, process->first_ns),
		us_since_start(trace, process->last_ns));
	for (size_t i = 0; i < KR_IO_TRACE_KINDS; i++)
		fprintf(file, "%s%" PRIu64, i ? "," : ",[", process->requests[i]);
	fputc(']', file);
	put_us(file, process->took_ns, KR_IO_TRACE_KINDS);
	put_us(file, process->waited_ns, KR_WAITS);
	fputs("]\n", file);
	KR_TABLE_FOR_EACH(use, &process->uses, link)
		write_use(trace, use);
}

/* 0, or the error of the file.  LOADS: lines, NULL: none. */
static int write_interval(struct kr_io_trace *trace, struct interval *interval, const char *loads)
{
	const struct process *process;

	if (loads)
		fputs(loads, trace->file);
	KR_TABLE_FOR_EACH(process, &interval->processes, link)
		write_process(trace, process);
	errno = ENOSPC; /* where stdio does not tell */
	if (fflush(trace->file) != 0 || ferror(trace->file))
		return -errno;
	return (uint64_t)ftello(trace->file) > FILE_MAX ? -EFBIG : 0;
}

/* --- the file --------------------------------------------------------------------------------- */

static void write_end(struct kr_io_trace *trace)
{
	fprintf(trace->file, "[\"E\",%" PRIu64 "]\n", (kr_clock_ns() - trace->started_ns) / 1000);
	fclose(trace->file); /* a file that lacks the end says so by that */
	trace->file = NULL;
}

static struct interval *take_interval(struct kr_io_trace *trace, struct interval *next)
{
	KR_SCOPED_LOCK(&trace->lock);
	struct interval *interval = trace->now;

	trace->now = next;
	return interval;
}

static void end(struct kr_io_trace *trace)
{
	if (!atomic_exchange(&trace->on, false))
		return;
	uv_timer_stop(&trace->timer);
	kr_load_samples_stop(trace->loads);
	kr_kernel_requests_watch(trace->mount->requests, false);
}

static void write_now(struct kr_io_trace *trace);

static void run_job(uv_work_t *work)
{
	struct kr_io_trace *trace = KR_CONTAINER_OF(KR_CONTAINER_OF(work, struct job, work), struct kr_io_trace, job);

	trace->job.err = write_interval(trace, trace->job.interval, trace->job.loads);
}

static void job_done(uv_work_t *work, int status)
{
	struct kr_io_trace *trace = KR_CONTAINER_OF(KR_CONTAINER_OF(work, struct job, work), struct kr_io_trace, job);

	(void)status;
	interval_free(trace->job.interval);
	trace->job.interval = NULL;
	free(trace->job.loads);
	trace->job.loads = NULL;
	if (trace->job.err < 0) {
		snprintf(trace->error, sizeof(trace->error), "%s",
			trace->job.err == -EFBIG ? "its file has reached 1 GiB" : strerror(-trace->job.err));
		kr_log_warn("the trace has ended: %s", trace->error);
		end(trace);
		interval_free(take_interval(trace, NULL));
		fclose(trace->file);
		trace->file = NULL;
	} else if (trace->again) {
		trace->again = false;
		write_now(trace);
	} else if (trace->stop) {
		write_end(trace);
	}
}

/* The sums so far go to the file; with `stop` no others follow. */
static void write_now(struct kr_io_trace *trace)
{
	if (trace->job.interval) {
		trace->again = true;
		return;
	}
	if (trace->stop)
		end(trace);
	trace->job.interval = take_interval(trace, trace->stop ? NULL : interval_new());
	trace->job.loads = kr_load_samples_take(trace->loads);
	if (uv_queue_work(trace->mount->loop, &trace->job.work, run_job, job_done) < 0) {
		run_job(&trace->job.work);
		job_done(&trace->job.work, 0);
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct kr_io_trace *trace = timer->data;

	if (!trace->job.interval)
		write_now(trace);
}

static void on_full(struct kr_task *task)
{
	struct kr_io_trace *trace = KR_CONTAINER_OF(task, struct kr_io_trace, full);

	if (trace->file && !trace->job.interval)
		write_now(trace);
}

static int open_file(struct kr_io_trace *trace)
{
	KR_AUTO_FREE char *node = kr_text_utf8(kr_local_node_name(trace->mount->local));
	KR_AUTO_FREE char *path = kr_text_utf8(trace->mount->options->mount_point);
	int fd = openat(
		kr_local_fd(trace->mount->local), "trace", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	json_t *head;

	trace->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!trace->file)
		return kr_fail_errno(-errno, "cannot make %s/trace", kr_local_path(trace->mount->local));
	head = json_pack("{si ss ss sf}", "kairan trace", KR_IO_TRACE_FORMAT, "node", node, "mount", path, "started",
		(double)(kr_clock_real_ns() / 1000) / 1e6);
	json_dumpf(head, trace->file, JSON_COMPACT | JSON_REAL_PRECISION(16));
	json_decref(head);
	fputc('\n', trace->file);
	return 0;
}

int kr_io_trace_start(struct kr_io_trace *trace)
{
	int err;

	if (trace->file)
		return -EEXIST;
	err = open_file(trace);
	if (err < 0)
		return err;
	trace->started_ns = kr_clock_ns();
	trace->stop = trace->again = false;
	trace->error[0] = 0;
	take_interval(trace, interval_new());
	atomic_store(&trace->on, true);
	kr_kernel_requests_watch(trace->mount->requests, true);
	uv_timer_start(&trace->timer, on_timer, INTERVAL_MS, INTERVAL_MS);
	free(kr_load_samples_take(trace->loads)); /* of a trace whose file could not be written */
	kr_load_samples_start(trace->loads, trace->started_ns);
	return 0;
}

int kr_io_trace_write(struct kr_io_trace *trace, bool stop)
{
	if (!trace->file)
		return -ENODATA;
	if (trace->stop) /* the last sums are on their way */
		return 0;
	trace->stop = stop;
	write_now(trace);
	return 0;
}

json_t *kr_io_trace_status(const struct kr_io_trace *trace)
{
	KR_AUTO_FREE char *file = NULL;

	if (asprintf(&file, "%s/trace", kr_local_path(trace->mount->local)) < 0)
		abort();
	return json_pack("{sb sb so ss}", "on", trace->on, "writing", trace->job.interval != NULL, "file",
		kr_text_json(file), "error", trace->error);
}

struct kr_io_trace *kr_io_trace_new(struct kr_mount *mount)
{
	struct kr_io_trace *trace = kr_xcalloc(1, sizeof(*trace));

	trace->mount = mount;
	pthread_mutex_init(&trace->lock, NULL);
	trace->full.fn = on_full;
	uv_timer_init(mount->loop, &trace->timer);
	trace->timer.data = trace;
	trace->loads = kr_load_samples_new(mount);
	return trace;
}

void kr_io_trace_close(struct kr_io_trace *trace)
{
	if (!trace)
		return;
	kr_loop_forget(trace->mount->kr_loop, &trace->full);
	uv_close((uv_handle_t *)&trace->timer, NULL);
	kr_load_samples_close(trace->loads);
}

void kr_io_trace_free(struct kr_io_trace *trace)
{
	char *loads;

	if (!trace)
		return;
	loads = kr_load_samples_take(trace->loads);
	if (trace->file && trace->now)
		write_interval(trace, trace->now, loads);
	if (trace->file)
		write_end(trace);
	interval_free(trace->now);
	kr_load_samples_free(trace->loads);
	free(loads);
	pthread_mutex_destroy(&trace->lock);
	free(trace);
}
