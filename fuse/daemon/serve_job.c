/* See serve_job.h. */
#include "fuse/daemon/serve_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/daemon/job_keeper.h"
#include "fuse/daemon/serve.h"

enum { ASK_AGAIN_MS = 20, ASK_AGAIN_MAX_MS = 1000, SAYS_AFTER_MS = 1000 };

struct job {
	const struct kr_mount_options *options;
	struct kr_local *local;
	int parent;
	struct kr_introduce_request request;
	struct kr_job_head head;
	struct kr_job_keeper keeper;
	bool keeps; /* the place has bytes for the head: it stays when the mount ends */
	bool (*ready)(void *context);
	void *context;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

/* Until the mount has handlers of its own. */
static void watch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

/* 0: the head's kairand serves; -EAGAIN with a reason: not yet; other errors. */
static int try_join(struct job *job)
{
	struct kr_job_head *head = &job->head;
	char place[KR_JOB_HEAD_TEXT];
	int err = kr_introduction_ask(job->options, &job->request, head);

	job->request.flags = 0;
	if (err < 0)
		return kr_introduction_may_pass(err) ? -EAGAIN : err;
	if (!head->is_head && !head->port && !*head->node)
		return kr_fail(-EAGAIN, "server %s:%u has started anew, and waits for the heads of jobs",
			job->options->server.host, job->options->server.port);
	if (!head->is_head && !head->port)
		return kr_fail(
			-EAGAIN, "the head of job %s, node %s, does not serve yet", job->options->job, head->node);
	if (head->is_head)
		return 0;
	err = kr_job_head_answers(head);
	if (err == 0)
		return 0;
	job->request.flags = KR_INTRODUCE_UNANSWERED;
	return kr_fail(-EAGAIN, "the head of job %s, node %s at %s, does not answer: %s", job->options->job, head->node,
		kr_job_head_format(head, place), strerror(-err));
}

static int join(struct job *job)
{
	const uint64_t patience_ms = job->options->connect_timeout,
		       ends_ns = kr_clock_ns() + patience_ms * KR_NS_PER_MS;
	const uint64_t says_ns = kr_clock_ns() + SAYS_AFTER_MS * KR_NS_PER_MS;
	unsigned wait_ms = ASK_AGAIN_MS;
	bool said = false;
	int err;

	for (;;) {
		err = try_join(job);
		if (interrupted)
			return kr_fail(-EINTR, "interrupted by a signal");
		if (err != -EAGAIN)
			return err;
		if (kr_clock_ns() >= ends_ns)
			return kr_fail(-ETIMEDOUT, "%s; gave up after %g s (connect_timeout)", kr_fail_reason(),
				(double)patience_ms / 1e3);
		if (!said && kr_clock_ns() >= says_ns) {
			kr_log_warn("%s; trying again for %g s (connect_timeout)", kr_fail_reason(),
				(double)(ends_ns - kr_clock_ns()) / 1e9);
			said = true;
		}
		kr_sleep_ms(wait_ms);
		wait_ms = KR_MIN(wait_ms * 2, (unsigned)ASK_AGAIN_MAX_MS);
	}
}

/* Whether the file PATH has KEY.  Each head of a job has another one. */
static bool has_key(const char *path, const struct kr_key *key)
{
	char text[KR_KEY_TEXT], former_text[KR_KEY_TEXT];
	struct kr_key *former;
	bool same;

	if (kr_key_load(path, &former) < 0)
		return false;
	kr_key_format(key, text);
	kr_key_format(former, former_text);
	kr_key_put(former);
	same = strcmp(text, former_text) == 0;
	sodium_memzero(text, sizeof(text));
	sodium_memzero(former_text, sizeof(former_text));
	return same;
}

static int make_place(struct job *job, const struct kr_key *key, const char *path)
{
	int err = kr_job_remove(job->local);

	if (err < 0)
		return kr_fail_errno(err, "cannot remove what a former mount has left in %s/" KR_JOB_PLACE,
			kr_local_path(job->local));
	if (mkdirat(kr_local_fd(job->local), KR_JOB_PLACE, 0700) < 0)
		return kr_fail_errno(-errno, "cannot write to local directory %s", kr_local_path(job->local));
	return kr_key_save(key, path);
}

/* The place, with the job's key.  From then on the secret is in that file alone. */
static int keep_or_make_place(struct job *job)
{
	KR_AUTO_FREE char *path = NULL;
	struct kr_key *key;
	int err = kr_key_of_secret(job->head.secret, &key);

	sodium_memzero(job->head.secret, sizeof(job->head.secret));
	if (err < 0)
		return err;
	if (asprintf(&path, "%s/" KR_JOB_PLACE "/key", kr_local_path(job->local)) < 0)
		abort();
	job->keeps = !job->head.is_head && has_key(path, key);
	if (!job->keeps)
		err = make_place(job, key, path);
	kr_key_put(key);
	return err;
}

/* From here on the log is no longer the caller's terminal. */
static bool on_ready(void *context)
{
	struct job *job = context;
	char place[KR_JOB_HEAD_TEXT];

	if (!job->ready(job->context))
		return false;
	job->keeps = false;
	kr_log_info("job %s: node %s serves it at %s", job->options->job, job->head.node,
		kr_job_head_format(&job->head, place));
	return true;
}

/* Mounts what the head serves. */
static int serve(struct job *job)
{
	static struct kr_mount_options mount; /* its threads may use it until the process ends */
	KR_AUTO_FREE char *local_path = NULL, *key = NULL, *source = NULL, *head = NULL;
	static char subdir[] = "";
	char place[KR_JOB_HEAD_TEXT];
	struct kr_local *local = NULL;
	int result;

	if (asprintf(&local_path, "%s/" KR_JOB_PLACE "/mount", kr_local_path(job->local)) < 0 ||
		asprintf(&key, "%s/" KR_JOB_PLACE "/key", kr_local_path(job->local)) < 0 ||
		asprintf(&source, "job:%s@%s", job->options->job, job->head.node) < 0 ||
		asprintf(&head, "the head of job %s, node %s (%s),", job->options->job, job->head.node,
			kr_job_head_format(&job->head, place)) < 0)
		abort();
	mount = *job->options; /* borrows */
	mount.view = KR_VIEW_CACHE;
	mount.local = local_path;
	mount.key = key;
	mount.munge = false;
	mount.source = source;
	mount.subdir = subdir;
	mount.head = head;
	mount.ends_job = job->head.is_head;
	mount.server.port = job->head.port;
	snprintf(mount.server.host, sizeof(mount.server.host), "%s", job->head.address);
	result = kr_local_open(&mount, &local);
	if (result == 0)
		result = kr_serve(&mount, local, on_ready, job);
	if (result == -ENOTCONN || result == -EHOSTDOWN) { /* and this, too */
		local_path = key = source = head = NULL;
		return result;
	}
	kr_local_free(local);
	return result;
}

static int join_and_serve(struct job *job)
{
	int err = join(job);

	if (err < 0) {
		job->keeps = true; /* that head may not have ended */
		return err;
	}
	(void)KR_FAULT("job.joined");
	err = keep_or_make_place(job);
	if (err == 0 && job->head.is_head)
		err = kr_job_keeper_start(
			&job->keeper, job->options, job->local, &job->request, job->parent, &job->head);
	return err < 0 ? err : serve(job);
}

/* Some bytes did not reach the head.  1: they stay for the next mount; -EIO with a reason: the head has ended. */
static int keep_bytes(struct job *job)
{
	if (kr_job_head_answers(&job->head) == -ECONNREFUSED)
		return kr_fail(-EIO, "the head of job %s, node %s, is gone, and what did not reach it is lost",
			job->options->job, job->head.node);
	kr_log_warn("%s/" KR_JOB_PLACE " keeps what the head has not got, for this node's next mount of job %s",
		kr_local_path(job->local), job->options->job);
	job->keeps = true;
	return 1;
}

int kr_serve_job(const struct kr_mount_options *options, struct kr_local *local, int parent,
	bool (*ready)(void *context), void *context)
{
	struct job job = {.options = options, .local = local, .parent = parent, .ready = ready, .context = context};
	char reason[512];
	int result, err;

	job.request = (struct kr_introduce_request){
		.job = options->job, .uid = geteuid(), .node = kr_local_node_name(local), .address = ""};
	randombytes_buf(job.request.member, sizeof(job.request.member));
	watch_signals();
	result = join_and_serve(&job);
	if (result == 1) {
		result = keep_bytes(&job);
	} else if (result == -EHOSTDOWN) { /* the caller must call _exit, as after -ENOTCONN: threads still run */
		(void)keep_bytes(&job);
		result = kr_fail(-ENOTCONN, "the head of job %s, node %s, is gone", options->job, job.head.node);
	} else if (result == 0) {
		job.keeps = false;
	}
	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	kr_job_keeper_stop(&job.keeper);
	err = job.keeps ? 0 : kr_job_remove(local);
	if (job.keeps && faccessat(kr_local_fd(local), KR_JOB_PLACE, F_OK, 0) == 0)
		kr_local_keep(local);
	if (err < 0)
		kr_log_warn("cannot remove all of %s/" KR_JOB_PLACE " (the next mount there does): %s",
			kr_local_path(local), strerror(-err));
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}
