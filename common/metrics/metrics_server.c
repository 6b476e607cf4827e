/* See metrics_server.h.
 *
 * Threads: MHD-single, which libmicrohttpd makes, and the loop.  MHD-single waits in answer_text until the loop has
 * collected the figures, and makes the text of them.  What both use is under `lock`.  The loop waits for MHD-single
 * only in kr_metrics_stop, for its end. By then `stopped` has ended the wait of MHD-single.
 *
 * A hostile client finds at most CONNECTIONS connections (PER_ADDRESS for one address) of CONNECTION_MEMORY bytes.  The
 * loop's timer ends a connection after CONNECTION_MS, however slowly its bytes come or go. */
#include "common/metrics/metrics_server.h"

#include <errno.h>

#include "common/base/fail.h"

#ifndef KR_METRICS

int kr_metrics_check(const char *text)
{
	return kr_fail(-EOPNOTSUPP, "metrics: %s: this program is built without metrics (libmicrohttpd)", text);
}

int kr_metrics_start(uv_loop_t *loop, const char *address, const struct kr_metrics_source *source,
	struct kr_metrics_server **ret_server)
{
	(void)loop, (void)source, (void)ret_server;
	return kr_metrics_check(address);
}

void kr_metrics_stop(struct kr_metrics_server *server)
{
	(void)server;
}

#else

#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "common/metrics/exposition.h"
#include "common/rpc/resolve.h"

enum {
	CONNECTIONS = 32,
	PER_ADDRESS = 16,
	CONNECTION_MEMORY = 16384, /* a request's head, longer ones are refused */
	CONNECTION_MS = 10000,
	TICK_MS = 500,
	BACKLOG = 64,
	FRESH_MS = 200,    /* for so long a text is given out again */
	COLLECT_MS = 5000, /* for so long a request waits for the loop */
	HASH_TEXT = sodium_base64_ENCODED_LEN(crypto_hash_sha256_BYTES, sodium_base64_VARIANT_ORIGINAL)
};

struct client {
	struct client *next;
	int fd;
	uint64_t since_ns;
};

struct kr_metrics_server {
	struct kr_metrics_source source;
	uv_async_t ask;
	uv_timer_t tick;
	int open_handles;
	struct MHD_Daemon *http;
	struct MHD_Response *page, *not_found, *not_allowed, *busy;
	struct MHD_Response *text; /* what all requests of a moment get; NULL: there is none.  MHD-single only */
	uint64_t text_ns;          /* when it was made */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* the next three have changed */
	json_t *figures;        /* owned; NULL: MHD-single has taken them, or there are none */
	uint64_t figures_ns;    /* when they were collected */
	bool stopped;
	struct client *clients;
};

static struct MHD_Response *response_of(char *text, enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);

	if (!response)
		return NULL;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

/* --- the page ------------------------------------------------------------------------------------ */

static char page[] =
#include "common/page.inc" /* page.html */
	;

/* The hash of what the page has between <TAG> and </TAG>, as Content-Security-Policy names it. */
static void hash_element(const char *tag, char ret_hash[HASH_TEXT])
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char opening[16], closing[16];
	const char *from, *to;

	snprintf(opening, sizeof(opening), "<%s>", tag);
	snprintf(closing, sizeof(closing), "</%s>", tag);
	from = strstr(page, opening) + strlen(opening);
	to = strstr(from, closing);
	crypto_hash_sha256(hash, (const unsigned char *)from, (size_t)(to - from));
	sodium_bin2base64(ret_hash, HASH_TEXT, hash, sizeof(hash), sodium_base64_VARIANT_ORIGINAL);
}

/* The browser runs the page's own script and style alone, and sends requests to this daemon only. */
static struct MHD_Response *page_response(void)
{
	struct MHD_Response *response = response_of(page, MHD_RESPMEM_PERSISTENT, "text/html; charset=utf-8");
	char policy[400], script[HASH_TEXT], style[HASH_TEXT];

	if (!response)
		return NULL;
	hash_element("script", script);
	hash_element("style", style);
	snprintf(policy, sizeof(policy),
		"default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; "
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		script, style);
	if (MHD_add_response_header(response, "Content-Security-Policy", policy) == MHD_YES &&
		MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES)
		return response;
	MHD_destroy_response(response);
	return NULL;
}

/* --- the text ------------------------------------------------------------------------------------ */

/* Loop thread. */
static void on_ask(uv_async_t *async)
{
	struct kr_metrics_server *server = async->data;
	json_t *figures = server->source.collect(server->source.context);

	pthread_mutex_lock(&server->lock);
	json_decref(server->figures);
	server->figures = figures;
	server->figures_ns = kr_clock_ns();
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

/* Has the loop collect figures, and takes them, owned.  NULL: the loop is busy or ends. */
static json_t *take_figures(struct kr_metrics_server *server)
{
	const uint64_t now_ns = kr_clock_ns();
	const struct timespec end = kr_monotonic_after(COLLECT_MS * KR_NS_PER_MS);
	json_t *figures = NULL;

	pthread_mutex_lock(&server->lock);
	if (!server->stopped)
		uv_async_send(&server->ask);
	while (!server->stopped && server->figures_ns < now_ns &&
		kr_cond_wait_until(&server->changed, &server->lock, end))
		continue;
	if (!server->stopped && server->figures_ns >= now_ns) {
		figures = server->figures;
		server->figures = NULL;
	}
	pthread_mutex_unlock(&server->lock);
	return figures;
}

/* Makes the text anew.  MHD-single. */
static void make_text(struct kr_metrics_server *server)
{
	json_t *figures = take_figures(server);
	char *text = figures ? kr_exposition(server->source.metrics, server->source.count, figures) : NULL;

	json_decref(figures);
	if (server->text)
		MHD_destroy_response(server->text); /* connections that are sending it keep it */
	server->text = text ? response_of(text, MHD_RESPMEM_MUST_FREE, KR_METRICS_CONTENT_TYPE) : NULL;
	if (!server->text)
		free(text);
	server->text_ns = kr_clock_ns();
}

/* MHD-single: queues the text for CONNECTION; makes it anew if it is not fresh. */
static enum MHD_Result answer_text(struct kr_metrics_server *server, struct MHD_Connection *connection)
{
	if (!server->text || kr_clock_ns() - server->text_ns >= FRESH_MS * KR_NS_PER_MS)
		make_text(server);
	return server->text ? MHD_queue_response(connection, MHD_HTTP_OK, server->text) :
			      MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, server->busy);
}

/* --- requests ------------------------------------------------------------------------------------ */

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
	const char *version, const char *upload, size_t *upload_size, void **request)
{
	struct kr_metrics_server *server = context;

	(void)version, (void)upload, (void)upload_size, (void)request;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, server->not_allowed);
	if (strcmp(url, "/") == 0)
		return MHD_queue_response(connection, MHD_HTTP_OK, server->page);
	if (strcmp(url, "/metrics") != 0)
		return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, server->not_found);
	return answer_text(server, connection);
}

/* --- connections --------------------------------------------------------------------------------- */

static void add_client(struct kr_metrics_server *server, int fd)
{
	struct client *client = kr_xcalloc(1, sizeof(*client));

	*client = (struct client){.next = server->clients, .fd = fd, .since_ns = kr_clock_ns()};
	server->clients = client;
}

static void remove_client(struct kr_metrics_server *server, int fd)
{
	struct client **at = &server->clients, *client;

	while (*at && (*at)->fd != fd)
		at = &(*at)->next;
	client = *at;
	if (client)
		*at = client->next;
	free(client);
}

/* MHD-single, before libmicrohttpd closes the descriptor. */
static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	struct kr_metrics_server *server = context;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	(void)socket_context;
	if (!info)
		return;
	pthread_mutex_lock(&server->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		add_client(server, info->connect_fd);
	else
		remove_client(server, info->connect_fd);
	pthread_mutex_unlock(&server->lock);
}

/* Ends connections that have lasted for too long: MHD-single finds them broken, and closes them. */
static void on_tick(uv_timer_t *timer)
{
	struct kr_metrics_server *server = timer->data;
	const uint64_t now_ns = kr_clock_ns();

	pthread_mutex_lock(&server->lock);
	for (const struct client *client = server->clients; client; client = client->next)
		if (now_ns - client->since_ns > CONNECTION_MS * KR_NS_PER_MS)
			shutdown(client->fd, SHUT_RDWR);
	pthread_mutex_unlock(&server->lock);
}

/* --- start and end ------------------------------------------------------------------------------- */

/* Whether TEXT, an endpoint, ends with a port. */
static bool has_port(const char *text)
{
	const char *last = strrchr(text, ':');

	return last && (text[0] == '[' ? last[-1] == ']' : strchr(text, ':') == last);
}

static int parse(const char *text, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret_address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_address;
	struct kr_endpoint endpoint;
	int err = kr_endpoint_parse(text, 0, true, &endpoint);
	bool numeric = false;

	if (err < 0)
		return kr_fail(-EINVAL, "metrics: %s", kr_fail_reason());
	memset(ret_address, 0, sizeof(*ret_address));
	if (inet_pton(AF_INET, endpoint.host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(endpoint.port);
		numeric = true;
	} else if (inet_pton(AF_INET6, endpoint.host, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(endpoint.port);
		numeric = true;
	}
	if (!numeric || !has_port(text))
		return kr_fail(-EINVAL,
			"metrics: \"%s\" is not ADDR:PORT with a numeric address (127.0.0.1:9440, [::1]:9440)", text);
	return 0;
}

int kr_metrics_check(const char *text)
{
	struct sockaddr_storage address;

	return parse(text, &address);
}

/* The listening socket, or -errno. */
static int listen_at(const struct sockaddr_storage *address, const char *text)
{
	const int on = 1;
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int err;

	if (fd < 0)
		return kr_fail_errno(-errno, "metrics: cannot listen on %s", text);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)address, size) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	err = -errno;
	close(fd);
	if (err == -EADDRINUSE)
		return kr_fail(
			err, "metrics: %s is in use (each mount, and each server, needs a port of its own)", text);
	return kr_fail_errno(err, "metrics: cannot listen on %s", text);
}

static void log_address(int fd)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	char text[80];

	if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return;
	kr_address_format((const struct sockaddr *)&address, text, sizeof(text));
	kr_log_info("metrics: http://%s/metrics%s", text,
		kr_address_is_loopback((const struct sockaddr *)&address) ?
			"" :
			"; everybody who reaches this address can read them");
}

static void free_server(struct kr_metrics_server *server)
{
	while (server->clients)
		remove_client(server, server->clients->fd);
	json_decref(server->figures);
	if (server->text)
		MHD_destroy_response(server->text);
	if (server->page)
		MHD_destroy_response(server->page);
	if (server->not_found)
		MHD_destroy_response(server->not_found);
	if (server->not_allowed)
		MHD_destroy_response(server->not_allowed);
	if (server->busy)
		MHD_destroy_response(server->busy);
	pthread_mutex_destroy(&server->lock);
	pthread_cond_destroy(&server->changed);
	free(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct kr_metrics_server *server = handle->data;

	if (--server->open_handles == 0)
		free_server(server);
}

static bool make_responses(struct kr_metrics_server *server)
{
	static char not_found[] = "Metrics are at /metrics, a page is at /.\n", not_allowed[] = "GET or HEAD.\n",
		    busy[] = "The daemon is busy, or ends.\n";

	server->page = page_response();
	server->not_found = response_of(not_found, MHD_RESPMEM_PERSISTENT, "text/plain");
	server->not_allowed = response_of(not_allowed, MHD_RESPMEM_PERSISTENT, "text/plain");
	server->busy = response_of(busy, MHD_RESPMEM_PERSISTENT, "text/plain");
	return server->page && server->not_found && server->busy && server->not_allowed &&
		MHD_add_response_header(server->not_allowed, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES;
}

static struct MHD_Daemon *start_http(struct kr_metrics_server *server, int fd)
{
	return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)PER_ADDRESS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(CONNECTION_MS / 1000),
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
}

int kr_metrics_start(uv_loop_t *loop, const char *address, const struct kr_metrics_source *source,
	struct kr_metrics_server **ret_server)
{
	struct kr_metrics_server *server;
	struct sockaddr_storage parsed;
	int err = parse(address, &parsed), fd;

	if (err < 0)
		return err;
	fd = listen_at(&parsed, address);
	if (fd < 0)
		return fd;
	server = kr_xcalloc(1, sizeof(*server));
	server->source = *source;
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->changed, NULL);
	server->open_handles = 2;
	uv_async_init(loop, &server->ask, on_ask);
	uv_timer_init(loop, &server->tick);
	server->ask.data = server->tick.data = server;
	uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
	server->http = make_responses(server) ? start_http(server, fd) : NULL;
	if (!server->http) { /* the daemon ends by this, and the socket with it, if libmicrohttpd has not closed it */
		kr_metrics_stop(server);
		return kr_fail(-ENOMEM, "metrics: libmicrohttpd cannot start");
	}
	log_address(fd);
	*ret_server = server;
	return 0;
}

void kr_metrics_stop(struct kr_metrics_server *server)
{
	if (!server)
		return;
	pthread_mutex_lock(&server->lock);
	server->stopped = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	if (server->http)
		MHD_stop_daemon(server->http);
	uv_close((uv_handle_t *)&server->ask, on_handle_closed);
	uv_close((uv_handle_t *)&server->tick, on_handle_closed);
}

#endif
