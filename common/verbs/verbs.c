/* Devices, listeners, and the events of the connection manager.  See verbs.h. */
#include "common/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/verbs/verbs_priv.h"

/* TURN_EVENTS: events that one turn of the loop takes, so that calls of strangers do not keep the loop busy. */
enum { LOOK_S = 60, TICK_MS = 1000, BACKLOG = 64, TURN_EVENTS = 64 };

/* --- devices ---------------------------------------------------------------------------------- */

static int look_for_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	return count > 0 ? 0 : kr_fail(-ENODEV, "this machine has no RDMA device");
}

static void on_events(uv_poll_t *poll, int status, int events);

int kr_verbs_ready(struct kr_verbs *verbs)
{
	const uint64_t now_ns = kr_clock_ns();
	int err;

	if (verbs->channel)
		return 0;
	if (verbs->looked_ns && now_ns - verbs->looked_ns < LOOK_S * KR_NS_PER_S)
		return kr_fail(-ENODEV, "this machine has no RDMA device");
	verbs->looked_ns = now_ns;
	err = look_for_device();
	if (err)
		return err;
	verbs->channel = rdma_create_event_channel();
	if (!verbs->channel) {
		err = kr_fail_errno(
			kr_verbs_error(errno), "the RDMA connection manager cannot be used (is rdma_ucm loaded?)");
		if (!verbs->told)
			kr_log_warn("ring connections use TCP: %s", kr_fail_reason());
		verbs->told = true;
		return err;
	}
	fcntl(verbs->channel->fd, F_SETFL, O_NONBLOCK);
	uv_poll_init(verbs->loop, &verbs->poll, verbs->channel->fd);
	uv_poll_start(&verbs->poll, UV_READABLE, on_events);
	verbs->poll.data = verbs;
	return 0;
}

static int register_pool(struct kr_verbs *verbs, struct kr_verbs_device *device)
{
	void *base;
	size_t length;
	int err = kr_buf_pool_open(verbs->pool, &base, &length);

	if (err)
		return err;
	device->pd = ibv_alloc_pd(device->context);
	if (!device->pd)
		return kr_fail_errno(kr_verbs_error(errno), "no protection domain");
	/* No remote access: peers only fill receives. */
	device->mr = ibv_reg_mr(device->pd, base, length, IBV_ACCESS_LOCAL_WRITE);
	if (!device->mr)
		return kr_fail_errno(kr_verbs_error(errno),
			"%zu MiB of memory cannot be registered with the RDMA device (does the limit of locked memory "
			"allow it? ulimit -l, or LimitMEMLOCK= of the service)",
			length >> 20);
	return 0;
}

static void free_device(struct kr_verbs_device *device)
{
	if (device->mr)
		ibv_dereg_mr(device->mr);
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	kr_list_remove(&device->link);
	free(device);
}

int kr_verbs_device_get(struct kr_verbs *verbs, struct ibv_context *context, struct kr_verbs_device **ret_device)
{
	struct kr_verbs_device *device;
	int err;

	KR_LIST_FOR_EACH(device, &verbs->devices, link) {
		if (device->context != context)
			continue;
		*ret_device = device;
		return 0;
	}
	device = kr_xcalloc(1, sizeof(*device));
	device->context = context;
	kr_list_append(&verbs->devices, &device->link);
	err = register_pool(verbs, device);
	if (err) {
		free_device(device);
		return err;
	}
	*ret_device = device;
	return 0;
}

/* --- listeners -------------------------------------------------------------------------------- */

static int make_address(const char *host, struct sockaddr_storage *ret_address)
{
	if (uv_ip4_addr(host, 0, (struct sockaddr_in *)ret_address) == 0 ||
		uv_ip6_addr(host, 0, (struct sockaddr_in6 *)ret_address) == 0)
		return 0;
	return kr_fail(-EINVAL, "%s is no numeric address", host);
}

static void close_listener(struct kr_verbs_listener *listener)
{
	if (listener->id)
		rdma_destroy_id(listener->id);
	kr_list_remove(&listener->link);
	free(listener);
}

int kr_verbs_listen(struct kr_verbs *verbs, const char *host, struct kr_verbs_listener **ret_listener)
{
	struct kr_verbs_listener *listener;
	struct sockaddr_storage address = {0};
	int err;

	KR_LIST_FOR_EACH(listener, &verbs->listeners, link) {
		if (strcmp(listener->host, host) != 0)
			continue;
		*ret_listener = listener;
		return 0;
	}
	err = make_address(host, &address);
	if (err)
		return err;
	listener = kr_xcalloc(1, sizeof(*listener));
	snprintf(listener->host, sizeof(listener->host), "%s", host);
	kr_list_append(&verbs->listeners, &listener->link);
	if (rdma_create_id(verbs->channel, &listener->id, NULL, RDMA_PS_TCP) < 0 ||
		rdma_bind_addr(listener->id, (struct sockaddr *)&address) < 0 ||
		rdma_listen(listener->id, BACKLOG) < 0) {
		err = kr_fail_errno(kr_verbs_error(errno), "no RDMA device listens on %s", host);
		close_listener(listener);
		return err;
	}
	listener->port = ntohs(rdma_get_src_port(listener->id));
	*ret_listener = listener;
	return 0;
}

/* --- events ----------------------------------------------------------------------------------- */

/* The device is going, and waits for all that uses it to be destroyed. */
static void remove_device(struct kr_verbs *verbs, struct ibv_context *context)
{
	struct kr_verbs_link *link, *next;
	struct kr_verbs_device *device, *next_device;
	struct kr_verbs_listener *listener, *next_listener;

	KR_LIST_FOR_EACH_SAFE(link, next, &verbs->links, link) {
		if (link->id && link->id->verbs == context)
			kr_verbs_link_fail(link, kr_fail(-ENODEV, "the RDMA device was removed"), false);
	}
	KR_LIST_FOR_EACH_SAFE(device, next_device, &verbs->devices, link) {
		if (device->context == context)
			free_device(device);
	}
	KR_LIST_FOR_EACH_SAFE(listener, next_listener, &verbs->listeners, link) {
		if (listener->id->verbs == context)
			close_listener(listener);
	}
}

/* EVENT is acknowledged here, because an id can be destroyed only when all of its events are. */
static void take_event(struct kr_verbs *verbs, struct rdma_cm_event *event)
{
	const enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	uint8_t data[KR_VERBS_PRIVATE] = {0};
	size_t length = KR_MIN((size_t)event->param.conn.private_data_len, sizeof(data));
	const int status = event->status;

	if ((type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED) &&
		event->param.conn.private_data)
		memcpy(data, event->param.conn.private_data, length);
	else
		length = 0;
	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		kr_verbs_caller_came(verbs, id, data, length);
	else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		remove_device(verbs, id->verbs);
	else if (id->context)
		kr_verbs_event(id->context, type, status, data, length);
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct kr_verbs *verbs = poll->data;
	struct rdma_cm_event *event;

	(void)status, (void)events;
	for (int i = 0; i < TURN_EVENTS && rdma_get_cm_event(verbs->channel, &event) == 0; i++)
		take_event(verbs, event);
}

static void on_tick(uv_timer_t *tick)
{
	struct kr_verbs *verbs = tick->data;
	const uint64_t now_ns = kr_clock_ns();
	struct kr_verbs_link *link, *next;
	bool waits = false;

	KR_LIST_FOR_EACH_SAFE(link, next, &verbs->links, link) {
		if (link->state == KR_LINK_OPEN)
			continue;
		waits = true;
		if (now_ns > link->deadline_ns)
			kr_verbs_link_fail(
				link, kr_fail(-ETIMEDOUT, "no RDMA connection within %d s", KR_VERBS_CONNECT_S), true);
	}
	if (!waits)
		uv_timer_stop(tick);
}

void kr_verbs_watch(struct kr_verbs *verbs)
{
	if (!uv_is_active((uv_handle_t *)&verbs->tick))
		uv_timer_start(&verbs->tick, on_tick, TICK_MS, TICK_MS);
}

/* --- beginning and end ------------------------------------------------------------------------ */

int kr_verbs_new(uv_loop_t *loop, enum kr_transport transport, size_t pool, struct kr_verbs **ret_verbs)
{
	struct kr_verbs *verbs;

	if (transport == KR_TRANSPORT_VERBS && look_for_device() < 0)
		return kr_fail(-ENODEV, "transport=verbs needs an RDMA device, and this machine has none");
	verbs = kr_xcalloc(1, sizeof(*verbs));
	verbs->loop = loop;
	verbs->transport = transport;
	verbs->pool = pool;
	kr_list_init(&verbs->devices);
	kr_list_init(&verbs->listeners);
	kr_list_init(&verbs->links);
	uv_timer_init(loop, &verbs->tick);
	uv_unref((uv_handle_t *)&verbs->tick);
	verbs->tick.data = verbs;
	*ret_verbs = verbs;
	return 0;
}

void kr_verbs_close(struct kr_verbs *verbs)
{
	if (!verbs || verbs->closing)
		return;
	verbs->closing = true;
	while (!kr_list_empty(&verbs->links))
		kr_verbs_link_fail(KR_LIST_ENTRY(verbs->links.head.next, struct kr_verbs_link, link),
			kr_fail(-ECONNRESET, "this side is ending"), false);
	while (!kr_list_empty(&verbs->listeners))
		close_listener(KR_LIST_ENTRY(verbs->listeners.head.next, struct kr_verbs_listener, link));
	while (!kr_list_empty(&verbs->devices))
		free_device(KR_LIST_ENTRY(verbs->devices.head.next, struct kr_verbs_device, link));
	uv_close((uv_handle_t *)&verbs->tick, NULL);
	if (!verbs->channel)
		return;
	uv_close((uv_handle_t *)&verbs->poll, NULL);
	rdma_destroy_event_channel(verbs->channel);
	verbs->channel = NULL;
}

void kr_verbs_free(struct kr_verbs *verbs)
{
	free(verbs);
}
