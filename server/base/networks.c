/* See networks.h. */
#include "server/base/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"

static int parse_bits(const char *text, unsigned most, unsigned *ret_bits)
{
	char *end;
	unsigned long bits = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || bits > most)
		return -EINVAL;
	*ret_bits = (unsigned)bits;
	return 0;
}

int kr_network_parse(const char *text, struct kr_network *ret_network)
{
	size_t length = strcspn(text, "/%");
	char address[INET6_ADDRSTRLEN];
	unsigned most;

	*ret_network = (struct kr_network){.family = memchr(text, ':', length) ? AF_INET6 : AF_INET};
	most = ret_network->family == AF_INET6 ? 128 : 32;
	ret_network->bits = most;
	if (length >= sizeof(address) || text[length] == '%')
		return kr_fail(-EINVAL, "'%s' is not a network (10.1.0.0/16, fd00::/8)", text);
	memcpy(address, text, length);
	address[length] = '\0';
	if (inet_pton(ret_network->family, address, ret_network->address) != 1 ||
		(text[length] && parse_bits(text + length + 1, most, &ret_network->bits)))
		return kr_fail(-EINVAL, "'%s' is not a network (10.1.0.0/16, fd00::/8)", text);
	return 0;
}

static bool contains(const struct kr_network *network, const struct kr_network *host)
{
	unsigned bytes = network->bits / 8, rest = network->bits % 8;

	if (network->family != host->family || memcmp(network->address, host->address, bytes) != 0)
		return false;
	return rest == 0 || (network->address[bytes] ^ host->address[bytes]) >> (8 - rest) == 0;
}

bool kr_networks_allow(const struct kr_strings *networks, const char *host)
{
	struct kr_network network, single;
	char address[INET6_ADDRSTRLEN];
	size_t length = strcspn(host, "%");

	if (networks->count == 0)
		return true;
	if (length >= sizeof(address))
		return false;
	memcpy(address, host, length);
	address[length] = '\0';
	if (kr_network_parse(address, &single))
		return false;
	for (size_t i = 0; i < networks->count; i++)
		if (kr_network_parse(networks->items[i], &network) == 0 && contains(&network, &single))
			return true;
	return false;
}
