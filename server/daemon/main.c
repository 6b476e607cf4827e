/* kairand: exports a directory.  Runs in the foreground, logs to standard error, and reports when it serves. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/auth/munge.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/privilege.h"
#include "common/base/service_manager.h"
#include "common/rpc/thread_pool.h"
#include "server/base/options.h"
#include "server/daemon/life.h"
#include "server/base/brief.h"
#include "server/session/listen.h"
#include "server/session/trust.h"

#define POOL_THREADS "16"
enum { DESCRIPTORS_WANTED = 65536 };

static struct kr_server server;
static uv_work_t munged_trial;
static uv_signal_t on_term, on_int, on_hup;

static void on_reload(uv_signal_t *handle, int number)
{
	(void)handle;
	(void)number;
	kr_trust_reload(&server);
}

static void on_signal(uv_signal_t *handle, int number)
{
	(void)handle;
	(void)number;
	kr_service_manager_tell("STOPPING=1");
	kr_log_info("stopping");
	uv_close((uv_handle_t *)&on_term, NULL);
	uv_close((uv_handle_t *)&on_int, NULL);
	uv_close((uv_handle_t *)&on_hup, NULL);
	signal(SIGHUP, SIG_IGN); /* a late reload ends nothing: a sync is running */
	kr_server_stop(&server);
}

static void watch_signals(uv_loop_t *loop)
{
	uv_signal_init(loop, &on_term);
	uv_signal_init(loop, &on_int);
	uv_signal_init(loop, &on_hup);
	uv_signal_start(&on_term, on_signal, SIGTERM);
	uv_signal_start(&on_int, on_signal, SIGINT);
	uv_signal_start(&on_hup, on_reload, SIGHUP);
}

/* In the pool, because libmunge may try for seconds.  munged can be started later, so its absence ends nothing. */
static void try_munged(uv_work_t *work)
{
	static const uint8_t payload[KR_MUNGE_PAYLOAD];
	KR_AUTO_FREE char *credential = NULL;

	(void)work;
	if (kr_munge_encode(server.options->munge_socket, (uint32_t)geteuid(), payload, &credential) < 0)
		kr_log_warn("--munge: %s; no node that comes by MUNGE is let in before it answers", kr_fail_reason());
}

/* Many nodes mean many sockets. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = KR_MIN(limit.rlim_max, (rlim_t)DESCRIPTORS_WANTED);
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(const struct kr_server_options *options)
{
	uv_loop_t *loop;
	int err, status = EXIT_SUCCESS;

	kr_privileges_freeze();
	kr_rings_forbid();
	loop = uv_default_loop();
	if (!loop) {
		kr_log_error("cannot start: no descriptors are left (ulimit -n), or no memory");
		return EXIT_FAILURE;
	}
	err = kr_listen_check(options);
	if (!err)
		err = kr_thread_pool_check(); /* the first job, in kr_server_init, starts it */
	if (!err)
		err = kr_server_init(&server, loop, options);
	if (err) {
		kr_log_error("%s", kr_fail_reason());
		return err == -EINVAL ? EX_USAGE : EXIT_FAILURE; /* no other start would succeed */
	}
	kr_give_back_idle_memory();
	err = kr_server_listen(&server);
	if (err) {
		kr_log_error("%s", kr_fail_reason());
		kr_server_stop(&server);
		uv_run(loop, UV_RUN_DEFAULT);
		kr_server_fini(&server);
		return EXIT_FAILURE;
	}
	watch_signals(loop);
	kr_service_manager_tell("READY=1");
	kr_log_info("ready");
	if (options->munge)
		uv_queue_work(loop, &munged_trial, try_munged, NULL);
	kr_brief_serve(loop);
	kr_log_info("stopped: what nodes have not flushed stays in their journals");
	if (kr_server_unsynced(&server)) {
		kr_log_error("not all that was applied is known to be on the export's disk: nodes send it again "
			     "from their journals after the next start");
		status = EXIT_FAILURE;
	}
	kr_server_fini(&server);
	uv_loop_close(loop);
	return status;
}

const char *malloc_conf = KR_MALLOC_CONF;

int main(int argc, char **argv)
{
	struct kr_server_options options = {0};
	struct kr_arguments arguments = {0};
	int err, status = EXIT_SUCCESS;

	if (kr_open_standard_fds() < 0)
		return EXIT_FAILURE;
	kr_log_init("kairand", KR_LOG_INFO);
	kr_keep_freed_memory();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);                      /* a limit of files' sizes (ulimit -f) is EFBIG */
	signal(SIGHUP, SIG_IGN);                       /* until it serves */
	setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 1); /* read by libuv at its first use */
	umask(0);                                      /* each request brings its own umask */
	err = kr_options_parse(&kr_server_options_set, argc, argv, &options, &arguments);
	if (!err && arguments.help) {
		kr_options_help(&kr_server_options_set, stdout);
	} else if (!err && arguments.version) {
		puts("kairand " KR_VERSION);
	} else if (!err && arguments.print_config) {
		kr_options_print(&kr_server_options_set, &options, stdout);
	} else if (err || kr_server_options_check(&options, &arguments)) {
		kr_log_error("%s", kr_fail_reason());
		status = EX_USAGE;
	} else {
		if (options.verbose)
			kr_log_init("kairand", KR_LOG_DEBUG);
		options.give_up = true;
		raise_limits();
		status = serve(&options);
	}
	kr_options_fini(&kr_server_options_set, &options);
	return status;
}
