#include "server/base/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/auth/munge.h"
#include "common/metrics/metrics_server.h"
#include "common/rpc/seal.h"
#include "common/base/util.h"
#include "common/verbs/verbs.h"

#define FIELD(name) offsetof(struct kr_server_options, name)

/* clang-format off */
static const struct kr_option table[] = {
	{.name = "listen", .type = KR_OPTION_LIST, .offset = FIELD(listen), .value_name = "ADDR[:PORT]",
		.help = "Serve this address; can be given several times (default: port 7440 of the loopback "
			"addresses, or, with --key, --munge or --insecure, of all)."},
	{.name = "key", .type = KR_OPTION_LIST, .offset = FIELD(key), .value_name = "FILE",
		.help = "Let in who has this key (made by kairan key), and nobody without one; can be given several "
			"times. Read again at SIGHUP."},
	{.name = "munge", .type = KR_OPTION_BOOL, .offset = FIELD(munge), .default_text = "false",
		.help = "Let in who proves by MUNGE who he is: root as a node, others as themselves. Can stand "
			"beside keys."},
	{.name = "munge_socket", .type = KR_OPTION_PATH, .offset = FIELD(munge_socket), .value_name = "PATH",
		.help = "Where munged listens, if not at the usual place."},
	{.name = "security", .type = KR_OPTION_ENUM, .offset = FIELD(security), .default_text = "integrity",
		.choices = KR_SECURITY_CHOICES,
		.help = "With keys, what is done for everything behind the handshake: auth nothing, integrity against "
			"changes by others on the network, privacy also against listeners. Mounts may ask for more."},
	{.name = "transport", .type = KR_OPTION_ENUM, .offset = FIELD(transport), .default_text = "auto",
		.choices = KR_TRANSPORT_CHOICES,
		.help = "How file data moves on ring connections: with auto over RDMA verbs where both ends have them, "
			"else over TCP; with tcp without RDMA; with verbs as with auto, but kairand does not start "
			"without an RDMA device."},
	{.name = "insecure", .type = KR_OPTION_BOOL, .offset = FIELD(insecure), .default_text = "false",
		.help = "Without a key, serve addresses that other machines can reach: whoever reaches them can read "
			"and write the export as any user."},
	{.name = "state", .type = KR_OPTION_PATH, .offset = FIELD(state), .value_name = "DIR",
		.help = "Keep the server's own state here (default: below /var/lib/kairan, or ~/.local/state/kairan)."},
	{.name = "squash", .type = KR_OPTION_ENUM, .offset = FIELD(squash), .default_text = "none",
		.choices = "none|root|all",
		.help = "Whose identity is replaced by that of the anonymous user: nobody's, root's, or everybody's."},
	{.name = "anon_uid", .type = KR_OPTION_COUNT, .offset = FIELD(anon_uid), .default_text = "65534",
		.max = UINT32_MAX - 1,
		.value_name = "UID", .help = "The anonymous user."},
	{.name = "anon_gid", .type = KR_OPTION_COUNT, .offset = FIELD(anon_gid), .default_text = "65534",
		.max = UINT32_MAX - 1,
		.value_name = "GID", .help = "The anonymous group."},
	{.name = "read_only", .type = KR_OPTION_BOOL, .offset = FIELD(read_only), .default_text = "false",
		.help = "Refuse all changes of the export (EROFS)."},
	{.name = "gateway", .type = KR_OPTION_BOOL, .offset = FIELD(gateway), .default_text = "false",
		.help = "Be one of several kairands that export the same directory of a network filesystem, all with "
			"this option. What holds between their nodes: GATEWAYS in kairand(8)."},
	{.name = "localflock", .type = KR_OPTION_BOOL, .offset = FIELD(localflock), .default_text = "false",
		.help = "With --gateway, grant locks that only the nodes of this kairand know of. Without it programs "
			"get no locks (ENOLCK)."},
	{.name = "allow", .type = KR_OPTION_LIST, .offset = FIELD(allow), .value_name = "NETWORK",
		.help = "Accept connections from this network only (10.1.0.0/16, fd00::/8); can be given several "
			"times."},
	{.name = "lease", .type = KR_OPTION_SECONDS, .offset = FIELD(lease), .default_text = "20s", .min = 1000,
		.max = 600000,
		.help = "After so long without a sign of life a node is lost: others may use its files."},
	{.name = "user_sessions", .type = KR_OPTION_COUNT, .offset = FIELD(user_sessions), .default_text = "64",
		.min = 1, .max = 65536,
		.value_name = "N",
		.help = "Mounts that one user's keys, or one user by MUNGE, may have at a time from one address; "
			"from all addresses together 64 times as many. Node keys are not limited."},
	{.name = "watch", .type = KR_OPTION_ENUM, .offset = FIELD(watch), .default_text = "auto",
		.choices = "auto|sweep|none",
		.help = "How changes that programs on this machine make in the export are noticed: by the kernel's "
			"word where it can be had, else and with sweep by looking at files once a second; with none "
			"not at all, for an export that nobody changes but the nodes."},
	{.name = "commit", .type = KR_OPTION_ENUM, .offset = FIELD(commit), .default_text = "share",
		.choices = "share|never",
		.help = "When what a node has written passes to other nodes: with share when it is on the disk, with "
			"never at once; then a loss of this machine's power can undo what others have seen already."},
	{.name = "metrics", .type = KR_OPTION_STRING, .offset = FIELD(metrics), .value_name = "ADDR:PORT",
		.help = "Serve metrics for Prometheus at http://ADDR:PORT/metrics, and a page for browsers at /, to "
			"everybody who reaches the address; off by default."},
	{.name = "verbose", .type = KR_OPTION_BOOL, .offset = FIELD(verbose), .default_text = "false", .letter = 'v',
		.help = "Log what happens in detail."},
};
/* clang-format on */

const struct kr_options kr_server_options_set = {
	.program = "kairand",
	.usage = "[OPTIONS] EXPORT_DIR",
	.about = "Exports a directory to nodes that mount it with kairanfs.",
	.section = "server",
	.default_file = KR_OPTIONS_FILE,
	.options = table,
	.count = KR_ARRAY_SIZE(table),
};

struct network {
	int family; /* AF_INET, AF_INET6 */
	uint8_t address[16];
	unsigned bits;
};

/* "10.1.0.0/16", "fd00::/8", or one address. -EINVAL with a reason. */
static int parse_network(const char *text, struct network *ret_network)
{
	size_t length = strcspn(text, "/%");
	char address[INET6_ADDRSTRLEN];
	uint64_t most, bits;

	*ret_network = (struct network){.family = memchr(text, ':', length) ? AF_INET6 : AF_INET};
	most = bits = ret_network->family == AF_INET6 ? 128 : 32;
	if (length >= sizeof(address) || text[length] == '%')
		return kr_fail(-EINVAL, "'%s' is not a network (10.1.0.0/16, fd00::/8)", text);
	memcpy(address, text, length);
	address[length] = '\0';
	if (inet_pton(ret_network->family, address, ret_network->address) != 1 ||
		(text[length] && !kr_parse_number(text + length + 1, 0, most, &bits)))
		return kr_fail(-EINVAL, "'%s' is not a network (10.1.0.0/16, fd00::/8)", text);
	ret_network->bits = (unsigned)bits;
	return 0;
}

static bool contains(const struct network *network, const struct network *host)
{
	unsigned bytes = network->bits / 8, rest = network->bits % 8;

	if (network->family != host->family || memcmp(network->address, host->address, bytes) != 0)
		return false;
	return rest == 0 || (network->address[bytes] ^ host->address[bytes]) >> (8 - rest) == 0;
}

bool kr_server_allows(const struct kr_strings *networks, const char *host)
{
	struct network network, single;
	char address[INET6_ADDRSTRLEN];
	size_t length = strcspn(host, "%");

	if (networks->count == 0)
		return true;
	if (length >= sizeof(address))
		return false;
	memcpy(address, host, length);
	address[length] = '\0';
	if (parse_network(address, &single))
		return false;
	for (size_t i = 0; i < networks->count; i++)
		if (parse_network(networks->items[i], &network) == 0 && contains(&network, &single))
			return true;
	return false;
}

int kr_server_options_check(struct kr_server_options *options, const struct kr_arguments *arguments)
{
	if (arguments->positional_count == 0)
		return kr_fail(-EINVAL,
			"which directory shall be exported? (kairand [OPTIONS] EXPORT_DIR; see kairand --help)");
	if (arguments->positional_count > 1)
		return kr_fail(-EINVAL,
			"one directory at a time, not also '%s' (start another kairand for it, with another port)",
			arguments->positional[1]);
	if (options->munge && !kr_munge_is_built())
		return kr_fail(-EINVAL, "this kairand is built without MUNGE");
	if (options->metrics && kr_metrics_check(options->metrics))
		return -EINVAL;
	if (options->munge && options->insecure)
		return kr_fail(-EINVAL, "--insecure lets everybody in, --munge only who proves who he is: choose one");
	if (options->key.count && options->insecure)
		return kr_fail(-EINVAL, "--insecure lets everybody in, --key only who has a key: choose one");
	if (options->localflock && !options->gateway)
		return kr_fail(
			-EINVAL, "--localflock is for a kairand with --gateway: without it all nodes know all locks");
	if (options->gateway && options->watch == KR_WATCH_NONE)
		return kr_fail(-EINVAL,
			"--watch=none is for an export that nobody else changes, --gateway for one that "
			"other gateways do: choose one");
	for (size_t i = 0; i < options->allow.count; i++) {
		struct network network;

		if (parse_network(options->allow.items[i], &network))
			return -EINVAL;
	}
	options->export_path = arguments->positional[0];
	return 0;
}
