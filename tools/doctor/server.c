/* kairan doctor: a server as it is seen from here, and the ring ports of its nodes. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "common/rpc/resolve.h"
#include "common/base/types.h"
#include "fuse/daemon/local_place.h"
#include "tools/base/client.h"
#include "tools/doctor/checks.h"
#include "tools/base/health.h"
#include "tools/base/units.h"

/* A request of PADDING bytes makes packets that no link of 1500 bytes takes, if this end is set to more.  Segments of
 * SMALL bytes pass wherever IPv6 may. */
enum { PADDING = 4000, SMALL = 1200, FULL_SEGMENT = 1500, ANSWER_MS = 3000, CONNECT_MS = 2000 };
enum { GIGABIT = 120000000 /* bytes per second */ };
enum { LEAST_FREE = 8 << 20 };
enum { CLOCK_MS = 1000, AT_ONCE = 64, NAMED = 4 };

/* --- the link --------------------------------------------------------------------------------- */

static int ask(const char *host, const struct kr_tool_proof *proof, unsigned max_segment, struct kr_probe *ret_probe,
	json_t **ret_status)
{
	*ret_probe = (struct kr_probe){.timeout_ms = ANSWER_MS, .padding = PADDING, .max_segment = max_segment};
	return kr_probe_server(host, proof, ret_probe, ret_status);
}

/* A link that drops large packets without a word lets connections be made and small requests pass.  So if a large
 * request fails, passes in small segments, and fails again, the link is to blame and not a slow server. */
static int ask_in_both_sizes(struct kr_findings *findings, const char *host, const struct kr_tool_proof *proof,
	struct kr_probe *ret_probe, json_t **ret_status)
{
	struct kr_probe again;
	json_t *second = NULL;
	int err = ask(host, proof, 0, ret_probe, ret_status);

	if (err == 0) {
		kr_findings_add(findings, KR_FINDING_OK, "packets", NULL, "full-sized ones pass %s",
			ret_probe->answer > FULL_SEGMENT ? "in both directions" : "towards the server");
		return 0;
	}
	if (err != -ETIMEDOUT)
		return err;
	err = ask(host, proof, SMALL, ret_probe, ret_status);
	if (err < 0)
		return err;
	if (ask(host, proof, 0, &again, &second) == -ETIMEDOUT)
		kr_findings_add(findings, KR_FINDING_PROBLEM, "packets",
			"find the size that passes (ping -M do -s 1400 HOST), and set the MTU of both ends to 28 "
			"bytes more; or sysctl net.ipv4.tcp_mtu_probing=1 on both",
			"the link drops large ones: segments of %d bytes pass, full-sized ones do not, so file data "
			"does not arrive: programs wait, or get EIO",
			SMALL);
	json_decref(second);
	return 0;
}

/* A flush goes over one connection, and half of its send buffer holds bytes under way. */
static void check_round_trip(struct kr_findings *findings, uint64_t rtt_us)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
	unsigned long long most = 0, rate;
	bool known = file && fscanf(file, "%*u %*u %llu", &most) == 1;

	if (file)
		fclose(file);
	if (!known || rtt_us == 0)
		return;
	rate = most / 2 * 1000000 / rtt_us;
	if (rate < GIGABIT)
		kr_findings_add(findings, KR_FINDING_WARNING, "round trip",
			"sysctl net.ipv4.tcp_wmem=\"4096 131072 33554432\" on nodes with such a link, and tcp_rmem on "
			"the server",
			"%.0f ms to the server: the kernel's limit for send buffers lets a flush carry %s/s at most",
			(double)rtt_us / 1000, kr_bytes_text((json_int_t)rate));
}

/* The server's clock showed a time between SENT and ANSWERED. */
static void check_clock(struct kr_findings *findings, const struct kr_probe *probe, const json_t *status)
{
	int64_t theirs = (int64_t)json_integer_value(json_object_get(status, "clock_ms"));
	int64_t sent = (int64_t)(probe->sent_ns / KR_NS_PER_MS),
		answered = (int64_t)(probe->answered_ns / KR_NS_PER_MS);
	int64_t ahead = theirs > answered ? theirs - answered : theirs < sent ? theirs - sent : 0;

	if (!theirs)
		return; /* an older server */
	if (ahead > CLOCK_MS || ahead < -CLOCK_MS)
		kr_findings_add(findings, KR_FINDING_WARNING, "clock", "keep both clocks right with NTP (chrony)",
			"the server's is %.1f s %s this machine's: times of files are the server's, so make and "
			"rsync see files of the future or old ones here; from 60 s MUNGE refuses, and keys expire "
			"too early or late",
			(double)llabs(ahead) / 1000, ahead > 0 ? "ahead of" : "behind");
	else
		kr_findings_add(findings, KR_FINDING_OK, "clock", NULL, "the server's and this machine's agree");
}

/* --- ring ports ------------------------------------------------------------------------------- */

struct port {
	const char *name;
	char address[300];
	int fd, err; /* err: 0 reached */
};

static void begin(struct port *port, const json_t *node)
{
	struct kr_endpoint endpoint = {.port = (uint16_t)json_integer_value(json_object_get(node, "ring_port"))};
	struct kr_addresses addresses;
	socklen_t length;

	snprintf(endpoint.host, sizeof(endpoint.host), "%s", kr_text_of(node, "ring_address"));
	kr_endpoint_format(&endpoint, port->address, sizeof(port->address));
	port->name = kr_text_of(node, "name");
	port->fd = -1;
	port->err = kr_resolve(&endpoint, false, &addresses);
	if (port->err < 0)
		return;
	length = addresses.items[0].ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	port->fd = socket(addresses.items[0].ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	port->err = port->fd < 0 || connect(port->fd, (const struct sockaddr *)&addresses.items[0], length) < 0 ?
		-errno :
		0;
}

/* Waits for those under way. */
static void wait_for_all(struct port *ports, size_t count)
{
	uint64_t end_ns = kr_clock_ns() + CONNECT_MS * KR_NS_PER_MS, now_ns;

	for (size_t i = 0; i < count; i++) {
		struct pollfd poll_fd = {.fd = ports[i].fd, .events = POLLOUT};
		socklen_t length = sizeof(ports[i].err);

		if (ports[i].err != -EINPROGRESS)
			continue;
		now_ns = kr_clock_ns();
		if (poll(&poll_fd, 1, now_ns < end_ns ? (int)((end_ns - now_ns) / KR_NS_PER_MS) : 0) == 1 &&
			getsockopt(ports[i].fd, SOL_SOCKET, SO_ERROR, &ports[i].err, &length) == 0)
			ports[i].err = -ports[i].err;
		else
			ports[i].err = -ETIMEDOUT;
	}
}

struct reached {
	unsigned all, failed;
	char first[1200]; /* nodes that cannot be reached, and why */
};

static void reach(struct port *ports, size_t count, struct reached *reached)
{
	wait_for_all(ports, count);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(reached->first);

		reached->all++;
		if (ports[i].err < 0 && reached->failed++ < NAMED)
			snprintf(reached->first + length, sizeof(reached->first) - length, "%s%s (%.100s: %s)",
				length ? ", " : "", ports[i].name, ports[i].address, strerror(-ports[i].err));
		if (ports[i].fd >= 0)
			close(ports[i].fd);
	}
}

/* Whether NODE, of this or any ring, is a neighbour of OWN (NULL: of all). */
static bool is_neighbour(const json_t *node, const json_t *own)
{
	return node != own && json_is_true(json_object_get(node, "connected")) &&
		json_integer_value(json_object_get(node, "ring_port")) > 0 &&
		(!own || strcmp(kr_text_of(node, "ring"), kr_text_of(own, "ring")) == 0);
}

static const json_t *find_node(const json_t *nodes, const char *name)
{
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		if (name && strcmp(kr_text_of(node, "name"), name) == 0)
			return node;
	}
	return NULL;
}

static void check_ring_ports(struct kr_findings *findings, const json_t *nodes, const char *name)
{
	const json_t *node, *own = find_node(nodes, name);
	struct reached reached = {0};
	struct port ports[AT_ONCE];
	size_t i, count = 0;

	json_array_foreach(nodes, i, node)
	{
		if (!is_neighbour(node, own))
			continue;
		begin(&ports[count++], node);
		if (count == AT_ONCE) {
			reach(ports, count, &reached);
			count = 0;
		}
	}
	reach(ports, count, &reached);
	if (reached.failed)
		kr_findings_add(findings, KR_FINDING_WARNING, "ring",
			"open that port in their firewalls; ring_port=LOW-HIGH makes it the same after each mount",
			"of %u nodes %u cannot be reached from here, so file data goes round them, or by the server: "
			"%s%s",
			reached.all, reached.failed, reached.first, reached.failed > NAMED ? "..." : "");
	else if (reached.all)
		kr_findings_add(findings, KR_FINDING_OK, "ring", NULL,
			"all %u ring ports of other nodes can be reached", reached.all);
}

/* --- the server's disks, on its own machine --------------------------------------------------- */

/* Whether HOST[:PORT] is an address of this machine: one can bind a socket to those only. */
static bool is_this_machine(const char *host)
{
	struct kr_endpoint endpoint;
	struct kr_addresses addresses;
	KR_AUTO_FD int fd = -1;
	socklen_t length;

	if (kr_endpoint_parse(host, KR_DEFAULT_PORT, false, &endpoint) < 0)
		return false;
	endpoint.port = 0;
	if (kr_resolve(&endpoint, false, &addresses) < 0)
		return false;
	length = addresses.items[0].ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	fd = socket(addresses.items[0].ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && bind(fd, (const struct sockaddr *)&addresses.items[0], length) == 0;
}

static void check_room(struct kr_findings *findings, const char *path, const char *check, const char *cost)
{
	struct statvfs facts;
	json_int_t bytes;

	if (statvfs(path, &facts) < 0)
		return; /* this user may not look there */
	bytes = (json_int_t)(facts.f_bavail * facts.f_frsize);
	if (bytes < LEAST_FREE)
		kr_findings_add(findings, KR_FINDING_PROBLEM, check, "free space there", "%s are free in %s: %s",
			kr_bytes_text(bytes), path, cost);
	else
		kr_findings_add(findings, KR_FINDING_OK, check, NULL, "%s are free in %s", kr_bytes_text(bytes), path);
}

static void check_disks(struct kr_findings *findings, const json_t *status)
{
	const char *state = kr_text_of(status, "state_directory");
	KR_AUTO_FD int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char type[KR_PLACE_TYPE];

	check_room(findings, kr_text_of(json_object_get(status, "export"), "path"), "export",
		"what nodes flush is refused, and stays in their journals");
	if (fd < 0)
		return;
	if (kr_place_of(fd, type) == KR_PLACE_MEMORY)
		kr_findings_add(findings, KR_FINDING_PROBLEM, "state directory", "name one on a disk with --state",
			"%s lies in memory (%s): when this machine stops the export loses its identity, and all "
			"nodes have to mount anew",
			state, type);
	else
		check_room(findings, state, "state directory", "names and requests cannot be noted, and fail");
}

/* --- the server ------------------------------------------------------------------------------- */

void kr_doctor_server(
	struct kr_findings *findings, const char *host, const struct kr_tool_proof *proof, const char *node)
{
	json_t *status = NULL;
	struct kr_probe probe;
	int err = ask_in_both_sizes(findings, host, proof, &probe, &status);

	if (err < 0) {
		kr_findings_add(findings, KR_FINDING_PROBLEM, "server",
			err == -ENOKEY || err == -EKEYREJECTED || err == -EKEYEXPIRED ?
				"name a key that it takes with --key FILE, or use --munge" :
				"see that kairand runs, and that a firewall lets this machine connect to its port",
			"%s", kr_fail_reason());
		return;
	}
	if (kr_status_is_healthy(status))
		kr_findings_add(
			findings, KR_FINDING_OK, "server", NULL, "it answers, has its export, and misses no node");
	else
		kr_findings_add(findings, KR_FINDING_PROBLEM, "server", "see what it says",
			"a node is missing, bytes were refused, or requests wait: kairan status %s", host);
	check_round_trip(findings, probe.rtt_us);
	check_clock(findings, &probe, status);
	check_ring_ports(findings, json_object_get(status, "nodes"), node);
	if (is_this_machine(host))
		check_disks(findings, status);
	json_decref(status);
}
