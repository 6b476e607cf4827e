/* A strict stand-in for libibverbs and librdmacm, to be preloaded or linked before them: reliable connections and SEND,
 * over TCP.  So programs that use verbs run on machines without a device, between processes and network namespaces, and
 * at the rate of the links there.
 *
 * It aborts where a device would fail or hang, or do harm later: memory outside of what the key covers; more posted
 * than a queue holds; a SEND for which no receive is posted (RNR), or a larger one than its buffer; a completion queue
 * that overflows; objects destroyed in the wrong order, or left at the end of the program; events not acknowledged.
 *
 * A device needs a receive to be posted when the SEND arrives.  The fake looks when it has read the SEND's header from
 * the socket, which is not earlier.
 *
 *   FAKEVERBS_NO_DEVICE=1    there is no device
 *   FAKEVERBS_FAIL_AFTER=N   the N-th SEND of the program fails, and breaks its connection
 *   FAKEVERBS_LOG=FILE       one line for each connection that ends: bytes sent and received
 *
 * A test that has the fake inside can call fakeverbs_remove_device.
 *
 * Not modelled: RDMA READ and WRITE but for a WRITE of 0 bytes with immediate data that arrives, shared receive queues, asynchronous events, packets and their loss.
 *
 * Threads: one of each listener; of each connection one that connects and receives, and one that sends.  `lock` guards
 * ids, events and the registry of memory; qp->lock the queues of a queue pair; cq->lock a completion queue.  They are
 * taken in this order.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#undef ibv_reg_mr

enum { PRIVATE_MAX = 196, PIECES = 8, CONNECT_S = 3, KEY = 0x5eed };
enum { SEND = 1, ACK, REQUEST, ACCEPT, REJECT, READY, IMMEDIATE };

#define BUG(...) \
	do { \
		fprintf(stderr, "fakeverbs: Assertion: " __VA_ARGS__); \
		fputc('\n', stderr); \
		abort(); \
	} while (0)

/* What goes over the socket in front of private data or a SEND's bytes. */
struct head {
	uint32_t magic, what, length;
};
enum { MAGIC = 0xfa4e };

struct memory {
	struct ibv_mr mr;
	struct memory *next;
};

struct queue { /* struct ibv_cq first */
	struct ibv_cq cq;
	pthread_mutex_t lock;
	struct ibv_wc *done;
	unsigned room, first, count, users;
	bool armed;
	atomic_uint taken, acknowledged;
};

struct channel { /* of completions */
	struct ibv_comp_channel channel;
	int in;
};

struct receive {
	uint64_t wr_id;
	struct ibv_sge piece;
};

struct send {
	uint64_t wr_id;
	bool signaled;
	uint32_t length, count;
	struct iovec pieces[PIECES];
};

struct pair {
	struct ibv_qp qp;
	struct id *id;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct receive *receives;
	struct send *sends;
	unsigned receive_room, first_receive, receive_count;
	/* Posted and not acknowledged; of these the first SENT have been written. */
	unsigned send_room, first_send, send_count, sent;
	unsigned acks; /* to be written */
	uint32_t most_pieces;
	bool broken, stopping;
	pthread_t writer;
	bool writes;
	uint64_t bytes_in, bytes_out;
};

struct event {
	struct rdma_cm_event event;
	uint8_t data[PRIVATE_MAX];
	struct event *next;
};

struct events { /* struct rdma_event_channel first */
	struct rdma_event_channel channel;
	int in;
	struct event *first;
};

struct id { /* struct rdma_cm_id first */
	struct rdma_cm_id id;
	struct id *next; /* in `ids` */
	struct sockaddr_storage from, to;
	int fd;
	atomic_bool cancelled;
	bool runs, told_end;
	pthread_t thread; /* connects and receives, or listens */
	uint8_t data[PRIVATE_MAX];
	uint32_t length; /* of private data to be sent */
	bool accepted;
	unsigned unacknowledged;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct memory *memories;
static struct id *ids;
static unsigned next_key = KEY;
static atomic_long sends_posted;
static atomic_int objects; /* that the program has to destroy */
static struct ibv_device device = {.name = "fake0"};
static struct ibv_context context;

static bool is_set(const char *name)
{
	return getenv(name) && *getenv(name);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool write_all(int fd, const void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		bytes = (const char *)bytes + done;
		length -= (size_t)done;
	}
	return true;
}

static bool read_all(int fd, void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t done = recv(fd, bytes, length, 0);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		bytes = (char *)bytes + done;
		length -= (size_t)done;
	}
	return true;
}

static bool write_head(int fd, uint32_t what, const void *data, uint32_t length)
{
	struct head head = {MAGIC, what, length};

	return write_all(fd, &head, sizeof(head)) && (!data || write_all(fd, data, length));
}

/* --- events of the connection manager --------------------------------------------------------- */

static void tell(struct id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type, int status, const void *data,
	uint32_t length)
{
	struct events *events = (struct events *)id->id.channel;
	struct event *event = calloc(1, sizeof(*event)), **last;

	event->event = (struct rdma_cm_event){.id = &id->id, .listen_id = listener, .event = type, .status = status};
	if (length > 0) {
		memcpy(event->data, data, length);
		event->event.param.conn.private_data = event->data;
		event->event.param.conn.private_data_len = (uint8_t)length;
	}
	pthread_mutex_lock(&lock);
	for (last = &events->first; *last; last = &(*last)->next)
		;
	*last = event;
	if (write(events->in, "", 1) != 1)
		BUG("events are not read");
	pthread_mutex_unlock(&lock);
}

static void tell_end(struct id *id)
{
	bool told;

	pthread_mutex_lock(&lock);
	told = id->told_end;
	id->told_end = true;
	pthread_mutex_unlock(&lock);
	if (!told)
		tell(id, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct events *events = calloc(1, sizeof(*events));
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		free(events);
		return NULL;
	}
	events->channel.fd = ends[0];
	events->in = ends[1];
	objects++;
	return &events->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct events *events = (struct events *)channel;

	if (events->first)
		BUG("an event channel is destroyed before its ids");
	close(channel->fd);
	close(events->in);
	free(events);
	objects--;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	struct events *events = (struct events *)channel;
	struct event *event = NULL;
	char byte;

	while (!event) {
		if (read(channel->fd, &byte, 1) != 1)
			return -1;
		pthread_mutex_lock(&lock);
		event = events->first; /* none: its id was destroyed */
		if (event) {
			events->first = event->next;
			((struct id *)event->event.id)->unacknowledged++;
		}
		pthread_mutex_unlock(&lock);
	}
	*ret_event = &event->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	pthread_mutex_lock(&lock);
	((struct id *)event->id)->unacknowledged--;
	pthread_mutex_unlock(&lock);
	free(event);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_REJECTED:
		return "RDMA_CM_EVENT_REJECTED";
	case RDMA_CM_EVENT_UNREACHABLE:
		return "RDMA_CM_EVENT_UNREACHABLE";
	default:
		return "another event";
	}
}

/* --- memory ----------------------------------------------------------------------------------- */

static void check_key(uint32_t key, uint64_t address, uint64_t length, bool writes)
{
	bool covered = false;

	pthread_mutex_lock(&lock);
	for (const struct memory *memory = memories; memory; memory = memory->next) {
		const uint64_t begin = (uintptr_t)memory->mr.addr, end = begin + memory->mr.length;

		covered |= memory->mr.lkey == key && address >= begin && address + length <= end &&
			(!writes || memory->mr.handle & IBV_ACCESS_LOCAL_WRITE);
	}
	pthread_mutex_unlock(&lock);
	if (!covered)
		BUG("key %#x does not cover %llu bytes at %#llx", key, (unsigned long long)length,
			(unsigned long long)address);
}

struct ibv_device **ibv_get_device_list(int *ret_count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	*ret_count = !is_set("FAKEVERBS_NO_DEVICE");
	list[0] = *ret_count ? &device : NULL;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *of)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = of;
	objects++;
	return pd;
}

/* pd->handle counts its users. */
int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (pd->handle)
		BUG("a protection domain is destroyed before what uses it");
	free(pd);
	objects--;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	pthread_mutex_lock(&lock);
	memory->mr = (struct ibv_mr){.context = pd->context,
		.pd = pd,
		.addr = address,
		.length = length,
		.handle = (uint32_t)access,
		.lkey = ++next_key};
	memory->next = memories;
	memories = memory;
	pd->handle++;
	pthread_mutex_unlock(&lock);
	objects++;
	return &memory->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct memory **at;

	pthread_mutex_lock(&lock);
	for (at = &memories; *at != (struct memory *)mr; at = &(*at)->next)
		;
	*at = (*at)->next;
	mr->pd->handle--;
	pthread_mutex_unlock(&lock);
	free(mr);
	objects--;
	return 0;
}

/* --- completions ------------------------------------------------------------------------------ */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *of)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		free(channel);
		return NULL;
	}
	channel->channel = (struct ibv_comp_channel){.context = of, .fd = ends[0]};
	channel->in = ends[1];
	objects++;
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		BUG("a completion channel is destroyed before its queues");
	close(channel->fd);
	close(((struct channel *)channel)->in);
	free(channel);
	objects--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *of, int room, void *user, struct ibv_comp_channel *channel, int vector)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	(void)vector;
	queue->cq.context = of;
	queue->cq.channel = channel;
	queue->cq.cq_context = user;
	queue->cq.cqe = room;
	queue->room = (unsigned)room;
	queue->done = calloc((size_t)room, sizeof(*queue->done));
	pthread_mutex_init(&queue->lock, NULL);
	channel->refcnt++;
	objects++;
	return &queue->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct queue *queue = (struct queue *)cq;

	if (queue->users)
		BUG("a completion queue is destroyed before its queue pair");
	if (queue->taken != queue->acknowledged)
		BUG("ibv_destroy_cq waits for ever: %u events are not acknowledged",
			queue->taken - queue->acknowledged);
	cq->channel->refcnt--;
	free(queue->done);
	free(queue);
	objects--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_user)
{
	if (read(channel->fd, ret_cq, sizeof(*ret_cq)) != sizeof(*ret_cq))
		return -1;
	*ret_user = (*ret_cq)->cq_context;
	((struct queue *)*ret_cq)->taken++;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	((struct queue *)cq)->acknowledged += count;
}

static int arm(struct ibv_cq *cq, int solicited_only)
{
	struct queue *queue = (struct queue *)cq;

	(void)solicited_only;
	pthread_mutex_lock(&queue->lock);
	queue->armed = true;
	pthread_mutex_unlock(&queue->lock);
	return 0;
}

static int poll_queue(struct ibv_cq *cq, int most, struct ibv_wc *ret_done)
{
	struct queue *queue = (struct queue *)cq;
	int count = 0;

	pthread_mutex_lock(&queue->lock);
	for (; count < most && queue->count > 0; queue->count--) {
		ret_done[count++] = queue->done[queue->first];
		queue->first = (queue->first + 1) % queue->room;
	}
	pthread_mutex_unlock(&queue->lock);
	return count;
}

static void complete(
	struct pair *pair, enum ibv_wc_opcode opcode, enum ibv_wc_status status, uint64_t wr_id, uint32_t length)
{
	struct queue *queue = (struct queue *)pair->qp.send_cq;
	struct channel *channel = (struct channel *)queue->cq.channel;
	struct ibv_cq *cq = &queue->cq;

	pthread_mutex_lock(&queue->lock);
	if (queue->count == queue->room)
		BUG("a completion queue overflows");
	queue->done[(queue->first + queue->count++) % queue->room] = (struct ibv_wc){
		.wr_id = wr_id, .status = status, .opcode = opcode, .byte_len = length, .qp_num = pair->qp.qp_num};
	if (queue->armed && write(channel->in, &cq, sizeof(cq)) != sizeof(cq))
		BUG("completion events are not read");
	queue->armed = false;
	pthread_mutex_unlock(&queue->lock);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "another status";
}

/* --- queue pairs ------------------------------------------------------------------------------ */

/* All that is posted comes back; with pair->lock held. */
static void break_pair(struct pair *pair, enum ibv_wc_status status)
{
	if (pair->broken)
		return;
	pair->broken = true;
	for (; pair->send_count > 0; pair->send_count--) {
		complete(pair, IBV_WC_SEND, status, pair->sends[pair->first_send].wr_id, 0);
		pair->first_send = (pair->first_send + 1) % pair->send_room;
		status = IBV_WC_WR_FLUSH_ERR;
	}
	for (; pair->receive_count > 0; pair->receive_count--) {
		complete(pair, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, pair->receives[pair->first_receive].wr_id, 0);
		pair->first_receive = (pair->first_receive + 1) % pair->receive_room;
	}
	pair->sent = pair->acks = 0;
	shutdown(pair->id->fd, SHUT_RDWR);
	pthread_cond_broadcast(&pair->changed);
}

static bool write_send(struct pair *pair, const struct send *send)
{
	bool good = write_head(pair->id->fd, SEND, NULL, send->length);

	for (uint32_t i = 0; i < send->count && good; i++)
		good = write_all(pair->id->fd, send->pieces[i].iov_base, send->pieces[i].iov_len);
	return good;
}

static void *write_pair(void *argument)
{
	struct pair *pair = argument;

	pthread_mutex_lock(&pair->lock);
	while (!pair->broken && !pair->stopping) {
		bool good = true;

		if (pair->acks > 0) {
			pair->acks--;
			pthread_mutex_unlock(&pair->lock);
			good = write_head(pair->id->fd, ACK, NULL, 0);
			pthread_mutex_lock(&pair->lock);
		} else if (pair->sent < pair->send_count) {
			struct send send = pair->sends[(pair->first_send + pair->sent++) % pair->send_room];

			pthread_mutex_unlock(&pair->lock);
			good = write_send(pair, &send);
			pthread_mutex_lock(&pair->lock);
		} else {
			pthread_cond_wait(&pair->changed, &pair->lock);
		}
		if (!good)
			break_pair(pair, IBV_WC_WR_FLUSH_ERR);
	}
	pthread_mutex_unlock(&pair->lock);
	return NULL;
}

/* The head of a SEND, or of a WRITE with immediate data, has been read. */
static bool take_send(struct pair *pair, enum ibv_wc_opcode opcode, uint32_t length)
{
	struct receive receive;

	pthread_mutex_lock(&pair->lock);
	if (pair->broken) {
		pthread_mutex_unlock(&pair->lock);
		return false;
	}
	if (pair->receive_count == 0)
		BUG("RNR: a SEND of %u bytes has come, and no receive is posted", length);
	receive = pair->receives[pair->first_receive];
	pthread_mutex_unlock(&pair->lock);
	if (length > receive.piece.length)
		BUG("a SEND of %u bytes is larger than its receive", length);
	if (!read_all(pair->id->fd, (void *)(uintptr_t)receive.piece.addr, length))
		return false;
	pthread_mutex_lock(&pair->lock);
	if (!pair->broken) {
		pair->first_receive = (pair->first_receive + 1) % pair->receive_room;
		pair->receive_count--;
		pair->acks++;
		pair->bytes_in += length;
		complete(pair, opcode, IBV_WC_SUCCESS, receive.wr_id, length);
		pthread_cond_signal(&pair->changed);
	}
	pthread_mutex_unlock(&pair->lock);
	return true;
}

static void take_ack(struct pair *pair)
{
	pthread_mutex_lock(&pair->lock);
	if (!pair->broken) {
		const struct send *send = &pair->sends[pair->first_send];

		if (pair->sent == 0)
			BUG("an acknowledgement of nothing");
		pair->bytes_out += send->length;
		if (send->signaled)
			complete(pair, IBV_WC_SEND, IBV_WC_SUCCESS, send->wr_id, send->length);
		pair->first_send = (pair->first_send + 1) % pair->send_room;
		pair->send_count--;
		pair->sent--;
	}
	pthread_mutex_unlock(&pair->lock);
}

/* The connection is there; until it ends. */
static void receive_all(struct pair *pair)
{
	struct head head;

	while (read_all(pair->id->fd, &head, sizeof(head)) && head.magic == MAGIC) {
		if (head.what == ACK)
			take_ack(pair);
		else if ((head.what != SEND && head.what != IMMEDIATE) ||
			!take_send(pair, head.what == SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM, head.length))
			break;
	}
	pthread_mutex_lock(&pair->lock);
	break_pair(pair, IBV_WC_WR_FLUSH_ERR);
	pthread_mutex_unlock(&pair->lock);
	tell_end(pair->id);
}

static void start_writer(struct pair *pair)
{
	int on = 1;

	setsockopt(pair->id->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pthread_mutex_lock(&pair->lock);
	pair->qp.state = IBV_QPS_RTS;
	pair->writes = pthread_create(&pair->writer, NULL, write_pair, pair) == 0;
	pthread_mutex_unlock(&pair->lock);
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **ret_bad)
{
	struct pair *pair = (struct pair *)qp;
	int err = 0;

	*ret_bad = request;
	if (request->next || request->num_sge != 1)
		BUG("one receive into one piece is modelled");
	check_key(request->sg_list->lkey, request->sg_list->addr, request->sg_list->length, true);
	pthread_mutex_lock(&pair->lock);
	if (pair->receive_count == pair->receive_room)
		BUG("the receive queue overflows");
	if (pair->broken)
		complete(pair, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, request->wr_id, 0);
	else
		pair->receives[(pair->first_receive + pair->receive_count++) % pair->receive_room] =
			(struct receive){request->wr_id, *request->sg_list};
	pthread_mutex_unlock(&pair->lock);
	return err;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **ret_bad)
{
	struct pair *pair = (struct pair *)qp;
	struct send send = {.wr_id = request->wr_id, .signaled = request->send_flags & IBV_SEND_SIGNALED};
	const char *fail_after = getenv("FAKEVERBS_FAIL_AFTER");

	*ret_bad = request;
	if (request->next || request->opcode != IBV_WR_SEND || (uint32_t)request->num_sge > pair->most_pieces)
		BUG("one SEND of at most %u pieces is modelled", pair->most_pieces);
	for (; send.count < (uint32_t)request->num_sge; send.count++) {
		const struct ibv_sge *piece = &request->sg_list[send.count];

		check_key(piece->lkey, piece->addr, piece->length, false);
		send.pieces[send.count] = (struct iovec){(void *)(uintptr_t)piece->addr, piece->length};
		send.length += piece->length;
	}
	pthread_mutex_lock(&pair->lock);
	if (pair->qp.state != IBV_QPS_RTS)
		BUG("a SEND before the connection is established");
	if (pair->send_count == pair->send_room)
		BUG("the send queue overflows");
	if (pair->broken) {
		complete(pair, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR, send.wr_id, 0);
	} else {
		pair->sends[(pair->first_send + pair->send_count++) % pair->send_room] = send;
		if (++sends_posted == (fail_after ? atol(fail_after) : 0))
			break_pair(pair, IBV_WC_RETRY_EXC_ERR);
		pthread_cond_signal(&pair->changed);
	}
	pthread_mutex_unlock(&pair->lock);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *of, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (attr->qp_type != IBV_QPT_RC || attr->send_cq != attr->recv_cq || attr->cap.max_send_sge > PIECES)
		BUG("a queue pair that is not modelled");
	pair->qp = (struct ibv_qp){.context = &context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.state = IBV_QPS_INIT,
		.qp_type = IBV_QPT_RC};
	pair->id = (struct id *)of;
	pair->receive_room = attr->cap.max_recv_wr;
	pair->send_room = attr->cap.max_send_wr;
	pair->most_pieces = attr->cap.max_send_sge;
	pair->receives = calloc(pair->receive_room, sizeof(*pair->receives));
	pair->sends = calloc(pair->send_room, sizeof(*pair->sends));
	pthread_mutex_init(&pair->lock, NULL);
	pthread_cond_init(&pair->changed, NULL);
	((struct queue *)attr->send_cq)->users++;
	pd->handle++;
	of->qp = &pair->qp;
	of->pd = pd;
	objects++;
	return 0;
}

/* The id's threads end. */
static void stop(struct id *id)
{
	pthread_mutex_lock(&lock);
	id->cancelled = true;
	if (id->fd >= 0)
		shutdown(id->fd, SHUT_RDWR);
	pthread_mutex_unlock(&lock);
	if (id->runs)
		pthread_join(id->thread, NULL);
	id->runs = false;
}

static void log_pair(const struct pair *pair)
{
	const char *path = getenv("FAKEVERBS_LOG");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "sent %llu received %llu\n", (unsigned long long)pair->bytes_out,
		(unsigned long long)pair->bytes_in);
	fclose(file);
}

void rdma_destroy_qp(struct rdma_cm_id *of)
{
	struct pair *pair = (struct pair *)of->qp;

	stop(pair->id);
	pthread_mutex_lock(&pair->lock);
	pair->stopping = true;
	pthread_cond_broadcast(&pair->changed);
	pthread_mutex_unlock(&pair->lock);
	if (pair->writes)
		pthread_join(pair->writer, NULL);
	log_pair(pair);
	((struct queue *)pair->qp.send_cq)->users--;
	pair->qp.pd->handle--;
	free(pair->receives);
	free(pair->sends);
	free(pair);
	of->qp = NULL;
	objects--;
}

/* --- connections ------------------------------------------------------------------------------ */

int rdma_create_id(
	struct rdma_event_channel *channel, struct rdma_cm_id **ret_id, void *user, enum rdma_port_space space)
{
	struct id *id = calloc(1, sizeof(*id));

	id->id.channel = channel;
	id->id.context = user;
	id->id.ps = space;
	id->fd = -1;
	pthread_mutex_lock(&lock);
	id->next = ids;
	ids = id;
	pthread_mutex_unlock(&lock);
	objects++;
	*ret_id = &id->id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *of)
{
	struct id *id = (struct id *)of;
	struct events *events = (struct events *)of->channel;

	if (of->qp)
		BUG("an id is destroyed before its queue pair");
	stop(id);
	pthread_mutex_lock(&lock);
	if (id->unacknowledged)
		BUG("rdma_destroy_id waits for ever: %u events are not acknowledged", id->unacknowledged);
	for (struct id **at = &ids; *at; at = &(*at)->next) {
		if (*at == id) {
			*at = id->next;
			break;
		}
	}
	for (struct event **at = &events->first; *at;) {
		struct event *event = *at;
		struct rdma_cm_id *caller = event->event.listen_id == of ? event->event.id : NULL;

		if (event->event.id != of && !caller) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		free(event);
		if (caller) { /* the program has not seen it */
			rdma_destroy_id(caller);
			at = &events->first;
		}
	}
	pthread_mutex_unlock(&lock);
	if (id->fd >= 0)
		close(id->fd);
	free(id);
	objects--;
	return 0;
}

static socklen_t size_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void copy_address(struct sockaddr_storage *to, const struct sockaddr *from)
{
	memcpy(to, from, from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

int rdma_bind_addr(struct rdma_cm_id *of, struct sockaddr *address)
{
	copy_address(&((struct id *)of)->from, address);
	of->verbs = &context;
	return 0;
}

static void set_patience(int fd)
{
	struct timeval patience = {.tv_sec = CONNECT_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

static void be_patient(int fd)
{
	struct timeval for_ever = {0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof(for_ever));
}

/* What a device would not take for a request is dropped. */
static void take_caller(struct id *listener, int fd)
{
	uint8_t data[PRIVATE_MAX];
	struct rdma_cm_id *of;
	struct head head;
	socklen_t size;

	set_patience(fd);
	if (!read_all(fd, &head, sizeof(head)) || head.magic != MAGIC || head.what != REQUEST ||
		head.length > PRIVATE_MAX || !read_all(fd, data, head.length)) {
		close(fd);
		return;
	}
	rdma_create_id(listener->id.channel, &of, listener->id.context, listener->id.ps);
	of->verbs = &context;
	size = sizeof(of->route.addr.dst_storage);
	getpeername(fd, &of->route.addr.dst_addr, &size);
	((struct id *)of)->fd = fd;
	tell((struct id *)of, &listener->id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, head.length);
}

static void *listen_for_callers(void *argument)
{
	struct id *listener = argument;

	for (;;) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (listener->cancelled || errno != ECONNABORTED))
			return NULL;
		if (fd >= 0)
			take_caller(listener, fd);
	}
}

int rdma_listen(struct rdma_cm_id *of, int backlog)
{
	struct id *id = (struct id *)of;
	socklen_t size = sizeof(id->from);

	id->fd = socket(id->from.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(id->fd, (struct sockaddr *)&id->from, size_of(&id->from)) < 0 || listen(id->fd, backlog) < 0 ||
		getsockname(id->fd, (struct sockaddr *)&id->from, &size) < 0) {
		errno = ENODEV;
		return -1;
	}
	id->runs = true;
	return pthread_create(&id->thread, NULL, listen_for_callers, id) ? -1 : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *of)
{
	const struct id *id = (struct id *)of;

	return id->from.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&id->from)->sin6_port :
						((const struct sockaddr_in *)&id->from)->sin_port;
}

int rdma_resolve_addr(struct rdma_cm_id *of, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	struct id *id = (struct id *)of;

	(void)timeout_ms;
	if (is_set("FAKEVERBS_NO_DEVICE")) {
		errno = ENODEV;
		return -1;
	}
	copy_address(&id->from, from);
	copy_address(&id->to, to);
	of->verbs = &context;
	tell(id, NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *of, int timeout_ms)
{
	(void)timeout_ms;
	tell((struct id *)of, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	return 0;
}

/* The caller's connection up to the answer, whose head and private data it returns. */
static bool call(struct id *id, struct head *ret_head, uint8_t data[PRIVATE_MAX])
{
	int fd = socket(id->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good;

	pthread_mutex_lock(&lock);
	id->fd = fd;
	good = !id->cancelled;
	pthread_mutex_unlock(&lock);
	set_patience(fd);
	return good && bind(fd, (struct sockaddr *)&id->from, size_of(&id->from)) == 0 &&
		connect(fd, (struct sockaddr *)&id->to, size_of(&id->to)) == 0 &&
		write_head(fd, REQUEST, id->data, id->length) && read_all(fd, ret_head, sizeof(*ret_head)) &&
		ret_head->magic == MAGIC && ret_head->length <= PRIVATE_MAX && read_all(fd, data, ret_head->length);
}

static void *run_caller(void *argument)
{
	struct id *id = argument;
	uint8_t data[PRIVATE_MAX];
	struct head head;

	if (!call(id, &head, data)) {
		tell(id, NULL, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, NULL, 0);
		return NULL;
	}
	if (head.what != ACCEPT || !write_head(id->fd, READY, NULL, 0)) {
		tell(id, NULL, RDMA_CM_EVENT_REJECTED, 28, NULL, 0);
		return NULL;
	}
	be_patient(id->fd);
	start_writer((struct pair *)id->id.qp);
	tell(id, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, data, head.length);
	receive_all((struct pair *)id->id.qp);
	return NULL;
}

static void *run_called(void *argument)
{
	struct id *id = argument;
	struct head head;

	if (!write_head(id->fd, ACCEPT, id->data, id->length) || !read_all(id->fd, &head, sizeof(head)) ||
		head.magic != MAGIC || head.what != READY) {
		tell(id, NULL, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, NULL, 0);
		return NULL;
	}
	be_patient(id->fd);
	start_writer((struct pair *)id->id.qp);
	tell(id, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	receive_all((struct pair *)id->id.qp);
	return NULL;
}

static int run(struct id *id, const struct rdma_conn_param *param, void *(*thread)(void *))
{
	if (param->private_data_len > 56)
		BUG("%u bytes of private data are more than RDMA_PS_TCP leaves", param->private_data_len);
	id->length = param->private_data_len;
	memcpy(id->data, param->private_data, id->length);
	id->runs = pthread_create(&id->thread, NULL, thread, id) == 0;
	return id->runs ? 0 : -1;
}

int rdma_connect(struct rdma_cm_id *of, struct rdma_conn_param *param)
{
	return run((struct id *)of, param, run_caller);
}

int rdma_accept(struct rdma_cm_id *of, struct rdma_conn_param *param)
{
	return run((struct id *)of, param, run_called);
}

int rdma_reject(struct rdma_cm_id *of, const void *data, uint8_t length)
{
	(void)data, (void)length;
	write_head(((struct id *)of)->fd, REJECT, NULL, 0);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *of)
{
	struct pair *pair = (struct pair *)of->qp;

	pthread_mutex_lock(&pair->lock);
	if (pair->id->fd >= 0)
		break_pair(pair, IBV_WC_WR_FLUSH_ERR);
	pthread_mutex_unlock(&pair->lock);
	return 0;
}

/* --- the library ------------------------------------------------------------------------------ */

void fakeverbs_remove_device(void);

void fakeverbs_remove_device(void)
{
	pthread_mutex_lock(&lock);
	for (struct id *id = ids; id; id = id->next) {
		if (id->id.verbs)
			tell(id, NULL, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	}
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
	context.device = &device;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_receive;
	context.ops.poll_cq = poll_queue;
	context.ops.req_notify_cq = arm;
	context.async_fd = -1;
}

__attribute__((destructor)) static void end(void)
{
	if (objects)
		BUG("%d objects are left at the end of the program", objects);
}
