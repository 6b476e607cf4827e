/* A link with a rate, a delay and faults, for kernels without netem: long_link DEVICE PID MBIT DELAY_MS LOSS CONTROL
 *
 * Makes two tap devices, DEVICE here and `eth0` in the network of process PID, and moves packets between them: MBIT is
 * the rate and DELAY_MS the delay of each direction.  A direction queues one and a half times of what is under way on
 * it (at least 1 MB), and drops what is more.  LOSS, in percent, is of packets of at most 1500 bytes; without it the
 * kernel hands over up to 64 KiB at once.  CONTROL is a fifo that takes orders, one a line: "throttle PORT MBIT" delays
 * the TCP connections with that port at one end, "cut PORT" drops all their packets, "heal" ends both.
 * Says "ready", and runs until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 66000, LANES = 9, NS = 1000000000 };

struct packet {
	struct packet *next;
	uint64_t due_ns;
	size_t length;
	uint8_t bytes[];
};

/* Packets that leave in their order, at a rate. */
struct lane {
	double mbit;
	uint64_t free_ns; /* when the last one will have been sent */
	struct packet *first, **last;
};

/* lanes[0] is the link; each other one has the packets of a throttled port, which enter the link behind it. */
struct direction {
	int from, to;
	struct lane lanes[LANES];
};

static struct {
	uint16_t port;
	double mbit; /* 0: cut */
} orders[LANES];
static int order_count = 1;
static double link_mbit, loss;
static uint64_t delay_ns;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

static int open_tap(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
		die(name);
	if (loss == 0 && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
		die("TUNSETOFFLOAD");
	return fd;
}

static int open_tap_in(const char *pid, const char *name)
{
	char path[64];
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there, fd;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (here < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0)
		die(path);
	fd = open_tap(name);
	if (setns(here, CLONE_NEWNET) < 0)
		die("setns");
	close(here);
	close(there);
	return fd;
}

/* Which lane a packet takes: 0, that of its port, or -1: none. */
static int lane_of(const struct packet *packet)
{
	const uint8_t *ip = packet->bytes + sizeof(struct virtio_net_hdr) + 14;
	const uint8_t *tcp = ip + (ip[0] & 15) * 4;

	if (packet->length < sizeof(struct virtio_net_hdr) + 14 + 60 - 20 || ip[-2] != 8 || ip[-1] != 0 || ip[9] != 6)
		return 0;
	for (int i = 1; i < order_count; i++) {
		if (tcp[0] * 256 + tcp[1] == orders[i].port || tcp[2] * 256 + tcp[3] == orders[i].port)
			return orders[i].mbit > 0 ? i : -1;
	}
	return 0;
}

static bool is_lost(void)
{
	return loss > 0 && drand48() * 100 < loss;
}

/* Takes PACKET: queues it on LANE, which it leaves at its rate and EXTRA later; or drops it. */
static void enqueue(struct lane *lane, struct packet *packet, uint64_t at_ns, uint64_t extra_ns)
{
	uint64_t start_ns = lane->free_ns > at_ns ? lane->free_ns : at_ns;
	uint64_t most_ns = (uint64_t)(1.5 * (double)(2 * delay_ns));
	uint64_t least_ns = (uint64_t)(8e9 / lane->mbit); /* 1 MB */

	if (start_ns - at_ns > (most_ns > least_ns ? most_ns : least_ns)) {
		free(packet);
		return;
	}
	lane->free_ns = start_ns + (uint64_t)((double)packet->length * 8000 / lane->mbit);
	packet->due_ns = lane->free_ns + extra_ns;
	packet->next = NULL;
	*lane->last = packet;
	lane->last = &packet->next;
}

static struct packet *dequeue(struct lane *lane)
{
	struct packet *packet = lane->first;

	lane->first = packet->next;
	if (!lane->first)
		lane->last = &lane->first;
	return packet;
}

static void take_in(struct direction *direction)
{
	for (int i = 0; i < 64; i++) {
		static uint8_t bytes[PACKET];
		ssize_t length = read(direction->from, bytes, sizeof(bytes));
		struct packet *packet;
		int lane;

		if (length < 0)
			return;
		packet = malloc(sizeof(*packet) + (size_t)length);
		if (!packet)
			die("malloc");
		memcpy(packet->bytes, bytes, (size_t)length);
		packet->length = (size_t)length;
		lane = lane_of(packet);
		if (lane < 0 || is_lost())
			free(packet);
		else
			enqueue(&direction->lanes[lane], packet, now_ns(), lane ? 0 : delay_ns);
	}
}

/* Moves what is due; the time at which the next is. */
static uint64_t move(struct direction *direction)
{
	uint64_t next_ns = UINT64_MAX, now = now_ns();

	for (int i = LANES - 1; i >= 0; i--) {
		struct lane *lane = &direction->lanes[i];

		while (lane->first && lane->first->due_ns <= now) {
			struct packet *packet = dequeue(lane);

			if (i > 0) {
				enqueue(&direction->lanes[0], packet, packet->due_ns, delay_ns);
				continue;
			}
			/* A full device drops, as a wire does. */
			if (write(direction->to, packet->bytes, packet->length) < 0 && errno != EAGAIN && errno != EIO)
				die("write");
			free(packet);
		}
		if (lane->first && lane->first->due_ns < next_ns)
			next_ns = lane->first->due_ns;
	}
	return next_ns;
}

static void take_order(const char *line)
{
	unsigned port;
	double mbit = 0;

	if (strncmp(line, "heal", 4) == 0) {
		order_count = 1;
	} else if (order_count < LANES &&
		(sscanf(line, "throttle %u %lf", &port, &mbit) == 2 || sscanf(line, "cut %u", &port) == 1)) {
		orders[order_count].port = (uint16_t)port;
		orders[order_count++].mbit = mbit;
	} else {
		fprintf(stderr, "long_link: what is \"%s\"?\n", line);
	}
}

static void take_orders(int control, struct direction *directions)
{
	char text[1024], *line, *rest = text;
	ssize_t length = read(control, text, sizeof(text) - 1);

	if (length <= 0)
		return;
	text[length] = 0;
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			take_order(line);
	}
	for (int i = 1; i < order_count; i++)
		directions[0].lanes[i].mbit = directions[1].lanes[i].mbit = orders[i].mbit;
}

int main(int argc, char **argv)
{
	struct direction directions[2] = {0};
	struct pollfd polls[3];
	int control;

	if (argc != 7) {
		fprintf(stderr, "long_link DEVICE PID MBIT DELAY_MS LOSS CONTROL\n");
		return 2;
	}
	link_mbit = atof(argv[3]);
	delay_ns = (uint64_t)(atof(argv[4]) * 1e6);
	loss = atof(argv[5]);
	srand48(1);
	control = open(argv[6], O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (control < 0)
		die(argv[6]);
	directions[0].from = directions[1].to = open_tap(argv[1]);
	directions[1].from = directions[0].to = open_tap_in(argv[2], "eth0");
	for (int i = 0; i < 2; i++) {
		for (int n = 0; n < LANES; n++)
			directions[i].lanes[n].last = &directions[i].lanes[n].first;
		directions[i].lanes[0].mbit = link_mbit;
		polls[i] = (struct pollfd){directions[i].from, POLLIN, 0};
	}
	polls[2] = (struct pollfd){control, POLLIN, 0};
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		uint64_t next_ns = UINT64_MAX, due_ns, now;
		struct timespec wait;

		for (int i = 0; i < 2; i++) {
			due_ns = move(&directions[i]);
			next_ns = due_ns < next_ns ? due_ns : next_ns;
		}
		now = now_ns();
		due_ns = next_ns == UINT64_MAX ? now + NS : next_ns > now ? next_ns : now;
		wait = (struct timespec){(time_t)((due_ns - now) / NS), (long)((due_ns - now) % NS)};
		if (ppoll(polls, 3, &wait, NULL) < 0 && errno != EINTR)
			die("ppoll");
		for (int i = 0; i < 2; i++)
			take_in(&directions[i]);
		if (polls[2].revents & POLLIN)
			take_orders(control, directions);
	}
}
